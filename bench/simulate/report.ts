import Table from 'cli-table3'
import { round } from '../statistics.ts'
import type { BestFixed, FixedResult } from './best-fixed.ts'
import type { PolicyResult } from './simulate.ts'

type Row = Readonly<Record<string, string | number>>

/** What several policies made of the same requests. */
export function resultTable(results: readonly PolicyResult[]): string {
  return draw(results.map((result) => row(result.policy, result)))
}

/** The best fixed configurations, next to those results. */
export function bestFixedTable({ withinTarget, highest }: BestFixed): string {
  const name = ({ maxBatchSize, maxQueueDelayMs }: FixedResult) =>
    `size ${maxBatchSize}, delay ${maxQueueDelayMs} ms`
  const rows = [row(`highest goodput: ${name(highest)}`, highest.result)]
  if (withinTarget !== null)
    rows.unshift(row(`p99 within target: ${name(withinTarget)}`, withinTarget.result))
  return draw(rows)
}

/** What became of the requests of each interval. */
export function timelineTable({ timeline }: PolicyResult): string {
  return draw(
    timeline.map(({ fromMs, offered, answered, late, refused, dropped, runs, rows }) => ({
      'from s': round(fromMs / 1000),
      offered,
      'in time': answered - late,
      late,
      refused,
      dropped,
      'mean rows': runs === 0 ? '-' : round(rows / runs),
    })),
  )
}

function row(name: string, result: PolicyResult): Row {
  const ms = (value: number | null) => (value === null ? '-' : round(value, 1))
  return {
    policy: name,
    answered: result.answered,
    refused: result.refused,
    dropped: result.dropped,
    'p50 ms': ms(result.p50Ms),
    'p99 ms': ms(result.p99Ms),
    'max ms': ms(result.maxMs),
    'answers/s': round(result.throughputPerSecond, 1),
    'in time/s': round(result.goodputPerSecond, 1),
    'in time %': round(result.goodputShare * 100, 1),
    'mean rows': round(result.meanBatchRows),
    'busy %': round(result.utilisation * 100, 1),
    'max queued': result.maxQueued,
    'simulated s': round(result.simulatedSeconds, 1),
    'wall s': round(result.wallSeconds),
  }
}

function draw(rows: readonly Row[]): string {
  const columns = Object.keys(rows[0] ?? {})
  const colAligns = columns.map((_, index) => (index === 0 ? 'left' : 'right') as 'left' | 'right')
  const table = new Table({ head: columns, style: { head: [], border: [], compact: true }, colAligns })
  for (const cells of rows) table.push(columns.map((column) => cells[column]!))
  return table.toString()
}
