/** A metric as a registry's text has it. */
export interface Exposed {
  readonly help: string
  readonly type: string
  /** By name and labels, as they are written. */
  readonly samples: Map<string, number>
}

/** Reads the text of a registry. */
export function exposed(text: string): Map<string, Exposed> {
  const metrics = new Map<string, Exposed>()
  let current: Exposed | undefined
  for (const line of text.split('\n')) {
    const help = /^# HELP (\S+) (.*)$/.exec(line)
    const type = /^# TYPE (\S+) (\S+)$/.exec(line)
    const sample = /^([a-zA-Z_:][\w:]*(?:\{.*\})?) (\S+)$/.exec(line)
    if (help !== null) metrics.set(help[1]!, (current = { help: help[2]!, type: '', samples: new Map() }))
    else if (type !== null) metrics.set(type[1]!, (current = { ...current!, type: type[2]! }))
    else if (sample !== null) {
      if (current!.samples.has(sample[1]!)) throw new Error(`${sample[1]} is there twice`)
      current!.samples.set(sample[1]!, Number(sample[2]))
    }
  }
  return metrics
}

/** What `promtool check metrics` says of a metric's name, type and help; nothing for a good one. */
export function complaints(name: string, { help, type }: Pick<Exposed, 'help' | 'type'>): string[] {
  const rules: [boolean, string][] = [
    [help.trim() === '', 'no help text'],
    [type === 'counter' && !name.endsWith('_total'), 'counter metrics should have "_total" suffix'],
    [type !== 'counter' && name.endsWith('_total'), 'non-counter metrics should not have "_total" suffix'],
    [
      /_(bucket|count|sum)$/.test(name),
      'non-histogram and non-summary metrics should not have such a suffix',
    ],
    [name.includes(`_${type}_`) || name.endsWith(`_${type}`), 'metric name should not include type'],
    [/[a-z][A-Z]/.test(name) || name.includes(':'), 'metric names should be written in snake_case'],
    [
      /_(s|ms|us|ns|secs|millis|milliseconds|microseconds|minutes|hours|kb|mb|kilobytes|megabytes|percent)(_|$)/.test(
        name,
      ),
      'use base units, in full',
    ],
    [/_(seconds|bytes|ratio)_(?!total$)/.test(name), 'the unit should be at the end'],
  ]
  return rules.filter(([broken]) => broken).map(([, complaint]) => `${name}: ${complaint}`)
}
