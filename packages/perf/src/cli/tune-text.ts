import Table from 'cli-table3'
import type { Load } from '../tune/configuration.ts'
import type { Goal } from '../tune/tune-settings.ts'
import type { TunedRow, TuneResult } from '../tune/outcome.ts'
import { oneLine } from 'zerohop/internals'

const mostRows = 10
const head = [
  'instances',
  'threads',
  'batch',
  'delay ms',
  'load',
  'rows/s',
  'to default',
  'p50 ms',
  'p99 ms',
  'memory MB',
  'rounds',
  '',
]

/** A table of the best configurations and the default. */
export function tuneText({ best, isConfirmed, rows, notes, end, seconds, judgedBy }: TuneResult): string {
  const isEmpty = rows.every(({ measured, failure }) => measured === null && failure === null)
  const shown = rows.slice(0, mostRows)
  const its = rows.find(({ isDefault, measured }) => isDefault && measured !== null)
  if (its !== undefined && !shown.includes(its)) shown.push(its)
  const table = new Table({
    head,
    style: { head: [], border: [], compact: true },
    colAligns: head.map((name) => (name === '' || name === 'load' ? 'left' : 'right')),
  })
  for (const row of shown) table.push(cells(row, row === best, judgedBy))
  const decided =
    best === null || isConfirmed
      ? 'further rounds would change nothing'
      : 'of what was measured in rounds nothing more is to be found out'
  const why = { decided, budget: 'no time was left for another measurement', interrupted: 'interrupted' }[end]
  return [
    ...(isEmpty ? [] : [table.toString()]),
    ...judgedText(judgedBy, rows),
    ...notes.map(oneLine),
    `${seconds.toFixed(1)} s: ${why}.`,
    '',
  ].join('\n')
}

function cells(
  {
    candidate: { configuration, load },
    isDefault,
    measured,
    rounds,
    isKept,
    toDefault,
    failure,
    ...judged
  }: TunedRow,
  isBest: boolean,
  judgedBy: Goal,
): string[] {
  const { instances, threads, maxBatchSize, maxQueueDelayMs, maxBatchCost } = configuration
  const remarks = [
    ...(isBest ? ['best'] : []),
    ...(isDefault ? ['default'] : []),
    ...(failure !== null
      ? [oneLine(failure).slice(0, 60)]
      : !isKept && measured !== null
        ? [overText({ rounds, measured, ...judged }, judgedBy)]
        : []),
  ]
  const its = [
    instances,
    threads,
    maxBatchCost === undefined ? maxBatchSize : `${maxBatchSize}, cost ${maxBatchCost}`,
    maxQueueDelayMs,
  ].map(String)
  const of = loadText(load)
  if (measured === null) return [...its, of, '', '', '', '', '', String(rounds), remarks.join(', ')]
  const { rowsPerSecond, p50Ms, p99Ms, memoryBytes } = measured
  return [
    ...its,
    of,
    figure(rowsPerSecond),
    toDefault === null ? '' : `${toDefault.toFixed(2)}x`,
    figure(p50Ms),
    figure(p99Ms),
    (memoryBytes / 1e6).toFixed(0),
    String(rounds),
    remarks.join(', '),
  ]
}

/** Why a row misses its limits, as its medians may be within them. */
function overText(
  {
    rounds,
    roundsOver,
    worstP99Ms,
    measured,
  }: Pick<TunedRow, 'rounds' | 'roundsOver' | 'worstP99Ms' | 'measured'>,
  { p99Ms = Infinity, memoryBytes = Infinity }: Goal,
): string {
  const which = [
    ...(worstP99Ms! > p99Ms ? [`worst p99 ${figure(worstP99Ms!)} ms`] : []),
    ...(measured!.memoryBytes > memoryBytes ? ['memory'] : []),
  ]
  return [`over a bound in ${roundsOver} of ${rounds} ${rounds === 1 ? 'round' : 'rounds'}`, ...which].join(
    ', ',
  )
}

function judgedText({ p99Ms, memoryBytes }: Goal, rows: readonly TunedRow[]): string[] {
  const bounds = [
    ...(p99Ms === undefined ? [] : [`a p99 of ${figure(p99Ms)} ms`]),
    ...(memoryBytes === undefined ? [] : [`${(memoryBytes / 1e6).toFixed(0)} MB`]),
  ]
  if (bounds.length === 0 || rows.every(({ measured }) => measured === null)) return []
  return [
    `over a bound is what was over ${bounds.join(' or ')} in a quarter of its rounds or more; the table has medians`,
  ]
}

/** How the best was measured, and its figures. This is not in the file, which has no field for it. */
export function bestText({ candidate: { load }, measured }: TunedRow): string {
  const { rowsPerSecond, p99Ms } = measured!
  return `With ${loadText(load)} it gave ${figure(rowsPerSecond)} rows/s and a p99 of ${figure(p99Ms)} ms.`
}

function loadText({ rate, concurrency }: Load): string {
  return rate === undefined
    ? `${concurrency} ${concurrency === 1 ? 'caller' : 'callers'}`
    : `${rate} requests/s`
}

/** A number with three significant digits. */
function figure(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3)
}
