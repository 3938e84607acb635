import { countOf, shareOf } from '../../web-page/charts/figures.ts'
import { element } from '../../web-page/charts/page-elements.ts'
import { fillTable } from './fill-table.ts'
import type { Moment } from './live-charts.ts'

/** Why batches are closed, as in the documentation. */
const reasons: Readonly<Record<string, string>> = {
  full: 'no further request fits',
  preferred: 'it has a preferred size, or one tried or found to give more',
  idle: 'an instance was free, and nothing to wait for',
  bucket: 'others that wait have other shapes',
  delay: 'its oldest request has waited long enough',
  deadline: 'one of its requests has no more time',
  drain: 'the model is closing',
}

type Counts = ReadonlyMap<string, number>

/** What was counted in all that is kept: how large batches were, why they were closed, and why requests failed. */
export function showTallies(moments: readonly (Moment | null)[]): void {
  const windows = moments.flatMap((moment) => moment?.load.window ?? [])
  const sizes = sumOf(
    windows.map(({ batchSizes }) =>
      batchSizes.map(({ batchSize, count }) => [String(batchSize), count] as const),
    ),
  )
  fillTable('sizes', rowsOf(new Map([...sizes].sort(([a], [b]) => Number(a) - Number(b)))))
  fillTable(
    'reasons',
    rowsOf(descending(sumOf(windows.map(({ batchReasons }) => Object.entries(batchReasons)))), withMeaning),
  )
  fillTable('failures', rowsOf(descending(sumOf(windows.map(({ failures }) => Object.entries(failures))))))
}

function sumOf(
  counted: readonly (readonly (readonly [name: string, count: number])[])[],
): Map<string, number> {
  const sums = new Map<string, number>()
  for (const [name, count] of counted.flat()) sums.set(name, (sums.get(name) ?? 0) + count)
  return sums
}

function descending(counts: Counts): Counts {
  return new Map([...counts].sort(([, a], [, b]) => b - a))
}

function rowsOf(
  counts: Counts,
  named: (name: string) => string | Node = (name) => name,
): (string | Node)[][] {
  const values = [...counts.values()]
  const total = values.reduce((sum, count) => sum + count, 0)
  const most = values.reduce((a, b) => Math.max(a, b), 0)
  return [...counts].map(([name, count]) => [
    named(name),
    barOf(count / most),
    countOf(count),
    shareOf(count / total),
  ])
}

function withMeaning(reason: string): HTMLElement {
  const shown = element('span', reason)
  const meaning = Object.hasOwn(reasons, reason) ? reasons[reason] : undefined
  if (meaning !== undefined) shown.append(element('small', meaning))
  return shown
}

function barOf(share: number): HTMLElement {
  const bar = element('i')
  bar.className = 'bar'
  bar.style.width = `${100 * share}%`
  return bar
}
