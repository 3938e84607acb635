import type { InputLevels, LevelResult, PerfResult } from '../result.ts'
import { comparedLevelsSection } from './compared-levels.ts'
import { levelAxis, levelCell } from './levels.ts'
import { countOf, shareOf, timeOf } from '../../web-page/charts/figures.ts'
import type { Cell, Section } from './section.ts'

/** One request again and again beside requests of which none came twice; nothing where only one of them was measured. */
export function inputsSection(result: PerfResult): Section | null {
  const { mode, inputs = [] } = result
  if (inputs.length < 2) return null
  const compared = inputs
    .map(({ inputs: name, levels }) => ({ name, result: { ...result, levels } }))
    .reverse() // ratios are to unique ones
  const { parts } = comparedLevelsSection(compared)
  return {
    id: 'inputs',
    title: 'The same inputs beside unique ones',
    lead: `One request again and again, and requests of which none comes twice: what caches make of it. All below this is of ${inputs.at(-1)!.inputs} inputs.`,
    parts: [
      ...parts,
      {
        table: {
          caption: 'Caches, and what was asked',
          columns: [levelAxis(mode), 'inputs', 'different requests', 'out of the cache', 'mean compute'],
          rows: inputs.flatMap(rowsOf),
          isOpen: true,
        },
      },
    ],
  }
}

function rowsOf({ inputs, distinct, levels }: InputLevels): Cell[][] {
  return levels.map((level) => [
    levelCell(level),
    inputs,
    distinct === null ? 'all' : countOf(distinct),
    cachedShare(level),
    computeOf(level),
  ])
}

function cachedShare({ server: { cacheHitCount, cacheMissCount } }: LevelResult): string {
  const looked = cacheHitCount + cacheMissCount
  return looked === 0 ? '–' : shareOf(cacheHitCount / looked)
}

function computeOf({ server: { computeInputUs, computeInferUs, computeOutputUs } }: LevelResult): string {
  return timeOf(computeInputUs + computeInferUs + computeOutputUs)
}
