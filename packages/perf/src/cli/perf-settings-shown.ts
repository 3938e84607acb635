import type { Command } from 'commander'
import type { PerfResult } from '../perf/result.ts'

/** Options that say where and how it is told what was measured, which makes no difference to that. */
const told = new Set(['json', 'report', 'latencyReportFile', 'profileExportFile', 'verbose', 'verboseCsv'])

/** The settings of a command line under the names that they have there, ranges as they are written, and which of them it gives. */
export function settingsShown(command: Command): Required<Pick<PerfResult, 'settings' | 'given'>> {
  const options = Object.entries(command.opts()).filter(([name]) => !told.has(name))
  const isGiven = ([name]: readonly [string, unknown]) => command.getOptionValueSource(name) === 'cli'
  const nameOf = ([name]: readonly [string, unknown]) =>
    name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
  return {
    settings: Object.fromEntries(options.map((option) => [nameOf(option), shown(option[1])])),
    given: options.filter(isGiven).map(nameOf),
  }
}

function shown(value: unknown): unknown {
  const { start, end, step } = Object(value) as { start?: number; end?: number; step?: number }
  return start === undefined || end === undefined
    ? value
    : [start, end, ...(step === undefined ? [] : [step])].join(':')
}
