import type { LevelResult, LoadMode, PerfResult } from '../result.ts'
import type { Cell } from './section.ts'
import { countOf } from '../../web-page/charts/figures.ts'

const axisNames: Readonly<Record<LoadMode, string>> = {
  concurrency: 'Concurrency',
  'periodic-concurrency': 'Concurrency',
  'request-rate': 'Requests/s',
  'request-intervals': 'Requests/s',
  replay: 'Speed of the replay',
  scenario: 'Level',
}

/** What levels of a mode are, as the heading of a column or the label of an axis. */
export function levelAxis(mode: LoadMode): string {
  return axisNames[mode] ?? 'Level'
}

/** A level as a word in a sentence. */
export function levelPhrase(mode: LoadMode, { level }: LevelResult): string {
  if (levelAxis(mode) === 'Requests/s') return `${countOf(level)} requests/s`
  return `${levelAxis(mode).toLowerCase()} ${countOf(level)}`
}

/** A level as the heading of a table's row, marked where it did not become stable. */
export function levelCell({ level, stable }: LevelResult): Cell {
  return stable ? countOf(level) : { text: countOf(level), warning: 'unstable' }
}

/** What charts over levels share. */
export function levelPoints({ levels }: PerfResult): { names: string[]; unstable: number[] } {
  return {
    names: levels.map(({ level }) => countOf(level)),
    unstable: levels.flatMap(({ stable }, index) => (stable ? [] : [index])),
  }
}

/** As a chart takes it: `null` where there is no such number, with the digits that can be seen. */
export function plotted(value: number): number | null {
  return Number.isFinite(value) ? Number(value.toPrecision(5)) : null
}

/** Whether only a logarithmic axis shows the small among them. */
export function spansDecades(values: readonly (number | null)[]): boolean {
  const shown = values.filter((value) => value !== null && value > 0) as number[]
  return shown.reduce((a, b) => Math.max(a, b), 0) > 20 * shown.reduce((a, b) => Math.min(a, b), Infinity)
}

/** Requests that were answered or failed. */
export function endedCount({ requestCount, failures }: LevelResult): number {
  return requestCount + failureCount(failures)
}

export function failureCount(failures: LevelResult['failures']): number {
  return Object.values(failures).reduce((a, b) => a + b, 0)
}
