import type { PerfResult } from '../result.ts'
import type { Colour } from '../../web-page/charts/chart.ts'

/** A result and what it is called beside others. */
export interface NamedResult {
  readonly name: string
  readonly result: PerfResult
}

const colours: readonly Colour[] = ['first', 'second', 'third', 'fourth', 'fifth', 'seventh']

/** As many can be told from each other in one chart. */
export const mostCompared = colours.length

/** The colour of the result at an index, in every chart. */
export function comparedColour(index: number): Colour {
  return colours[index]!
}
