import type { Arrival, ArrivalRun } from '../arrivals/arrival.ts'
import { medianOf } from './median.ts'
import type { Overheads } from './overheads.ts'
import type { RecordedRun } from './recorded-run.ts'
import { bucketOf } from './recorded-traffic.ts'

/** The runs of a recording, in the order of their starts. */
export function runsOf(arrivals: readonly Arrival[]): RecordedRun[] {
  const runs = arrivals.flatMap((arrival) => {
    if (arrival.run === undefined) return []
    const { rows, runUs } = arrival.run
    return [{ atMs: startUs(arrival.run) / 1000, rows, ms: runUs / 1000, bucketKey: bucketOf(arrival) }]
  })
  return runs.sort((a, b) => a.atMs - b.atMs)
}

/** Instances that ran something in a recording. */
export function instancesIn(arrivals: readonly Arrival[]): number {
  return new Set(arrivals.flatMap(({ run }) => run?.instance ?? [])).size
}

/** What requests and batches cost in a recording besides their runs. Inline runs are found by whether there were any. */
export function overheadsOf(arrivals: readonly Arrival[]): Overheads {
  const runs = arrivals.flatMap(({ run }) => run ?? []).sort((a, b) => a.takenAtUs - b.takenAtUs)
  const handed = runs.filter(({ inline }) => inline !== true)
  const gather = line(runs.map(({ rows, gatherUs }) => [rows, gatherUs]))
  const scatter = line(runs.map(({ rows, scatterUs }) => [rows, scatterUs]))
  return {
    gatherMs: gather.base / 1000,
    gatherRowMs: gather.perRow / 1000,
    handOverMs: medianOf(onIdle(handed).map(({ handOverUs }) => handOverUs)) / 1000,
    wakeMs: medianOf(wakesUs(handed)) / 1000,
    scatterMs: scatter.base / 1000,
    scatterRowMs: scatter.perRow / 1000,
  }
}

function startUs({ takenAtUs, gatherUs, handOverUs }: ArrivalRun): number {
  return takenAtUs + gatherUs + handOverUs
}

/** Those that waited behind no other run of their instance. */
function onIdle(runs: readonly ArrivalRun[]): ArrivalRun[] {
  const freeUs = new Map<string, number>()
  return runs.filter((run) => {
    const wasFree = (freeUs.get(run.instance) ?? 0) <= run.takenAtUs + run.gatherUs
    freeUs.set(run.instance, startUs(run) + run.runUs)
    return wasFree
  })
}

/** After each run, how long it took until the application's thread did something about it: took the next batch, or its outputs. */
function wakesUs(runs: readonly ArrivalRun[]): number[] {
  return runs.map((run) => {
    const endUs = startUs(run) + run.runUs
    let [low, high] = [0, runs.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (runs[middle]!.takenAtUs < endUs) low = middle + 1
      else high = middle
    }
    return Math.min(run.wakeUs, (runs[low]?.takenAtUs ?? Infinity) - endUs)
  })
}

/** The line through points that is nearest to all of them, and nowhere below 0. */
function line(points: readonly (readonly [rows: number, us: number])[]): { base: number; perRow: number } {
  if (points.length === 0) return { base: 0, perRow: 0 }
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const [rows, us] = [mean(points.map(([value]) => value)), mean(points.map(([, value]) => value))]
  const spread = points.reduce((sum, [value]) => sum + (value - rows) ** 2, 0)
  const together = points.reduce((sum, [value, took]) => sum + (value - rows) * (took - us), 0)
  const perRow = spread === 0 ? 0 : Math.min(us / rows, Math.max(0, together / spread))
  return { base: us - perRow * rows, perRow }
}
