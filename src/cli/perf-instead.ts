import { invalidArgument } from '../errors.ts'
import type { PerfOptions } from './perf-extension.ts'

/** Options that say how levels are measured or told, which something else cannot do in their place. */
const levelOptions = ['requestRateRange', 'requestIntervals', 'periodicConcurrencyRange', 'binarySearch', 'goodput', 'latencyReportFile'] as const

/**
 * Refuses options that would be left unheard by what is measured instead of levels.
 *
 * @param by the option that asks for that.
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function refuseUnheard(options: PerfOptions, by: string, names: readonly string[] = levelOptions): void {
  for (const name of names) {
    const value = options[name]
    if (value === undefined || value === false) continue
    throw invalidArgument(name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`), `to be left out beside --${by}`, value)
  }
}

/** What {@link refuseUnheard} is about, and more. */
export const levelsAnd = (...names: readonly string[]): string[] => [...levelOptions, ...names]
