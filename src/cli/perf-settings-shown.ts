import type { PerfResult } from '../perf/result.ts'

/** Options under the names of the command line, ranges as they are written there. */
export function settingsShown(options: Readonly<Record<string, unknown>>): PerfResult['settings'] {
  return Object.fromEntries(Object.entries(options).map(([name, value]) => [name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`), shown(value)]))
}

function shown(value: unknown): unknown {
  const { start, end, step } = Object(value) as { start?: number; end?: number; step?: number }
  return start === undefined || end === undefined ? value : `${start}:${end}:${step}`
}
