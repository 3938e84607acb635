import type { LevelChart, View } from './chart.ts'
import { figureOf } from './figures.ts'

/** What a view shows as text: of each point its name, then its figures. */
export function rowsOf({ y }: LevelChart, { names, series }: View): string[][] {
  return names.map((name, index) => [
    name,
    ...series.map(({ values }) => figureOf(values[index] ?? null, y.unit)),
  ])
}
