import type { Command } from 'commander'
import type { PerfExtension, PerfOptions } from './perf-extension.ts'

/** Options of how levels are measured, which mean nothing to what is measured in their place, but for what it takes for itself. */
export function levelOptionsBut(...heard: readonly string[]): string[] {
  const all = [
    'concurrencyRange', 'requestRateRange', 'requestDistribution', 'requestIntervals', 'periodicConcurrencyRange', 'requestPeriod',
    'measurementMode', 'measurementInterval', 'measurementRequestCount', 'stabilityPercentage', 'maxTrials', 'percentile', 'latencyThreshold', 'binarySearch',
    'warmupRequestCount', 'requestCount', 'goodput', 'latencyReportFile', 'verboseCsv',
  ] // prettier-ignore
  return all.filter((name) => !heard.includes(name))
}

/**
 * Ends the program, before anything is opened, where an option was given that nobody would hear: one of an extension that is not
 * asked to measure, or one that means nothing beside one that is.
 */
export function refuseUnheard(
  command: Command,
  extensions: readonly PerfExtension[],
  ownOf: (extension: PerfExtension) => readonly string[],
): void {
  const options: PerfOptions = command.opts()
  const isGiven = (name: string) => command.getOptionValueSource(name) === 'cli'
  const written = (name: string) => {
    const flag = command.options.find((option) => option.attributeName() === name)!.long!
    return typeof options[name] === 'string' ? `${flag} ${options[name]}` : flag
  }
  for (const extension of extensions) {
    const { leader, unheard } = extension
    if (leader === undefined) continue
    const isAsked = isGiven(leader)
    const [first] = (isAsked ? (unheard?.(options) ?? []) : ownOf(extension)).filter(isGiven)
    if (first === undefined) continue
    command.error(
      isAsked
        ? `error: ${written(first)} means nothing beside ${written(leader)}: leave it out`
        : `error: ${written(first)} means nothing without ${command.options.find((option) => option.attributeName() === leader)!.flags}`,
    )
  }
}
