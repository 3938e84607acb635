import type { Arrival, ArrivalRun } from '../arrivals/arrival.ts'
import { defaultInline } from '../config/engine-options.ts'
import type { Overheads } from './overheads.ts'
import type { RecordedRun } from './recorded-run.ts'
import { bucketOf } from './recorded-traffic.ts'

/** The runs of a recording, in the order of their starts. */
export function runsOf(arrivals: readonly Arrival[]): RecordedRun[] {
  const recorded = arrivals.flatMap((arrival) => (arrival.run === undefined ? [] : [{ arrival, run: arrival.run }])).sort((a, b) => startUs(a.run) - startUs(b.run))
  const ends = recorded.map(({ run }) => startUs(run) + run.runUs + run.wakeUs).sort((a, b) => a - b)
  const takenUs = recorded.map(({ run }) => run.takenAtUs).sort((a, b) => a - b)
  const instances = instancesIn(arrivals)
  const freeUs = new Map<string, number>()
  return recorded.map(({ arrival, run }) => {
    const { rows, runUs, instance, inline, handOverUs, gatherUs, scatterUs } = run
    const wasFree = (freeUs.get(instance) ?? 0) <= run.takenAtUs + gatherUs
    freeUs.set(instance, startUs(run) + runUs)
    const running = countUpTo(takenUs, arrival.atUs) - countUpTo(ends, arrival.atUs)
    return {
      atMs: startUs(run) / 1000,
      rows,
      ms: runUs / 1000,
      bucketKey: bucketOf(arrival),
      turnMs: running < instances ? (run.takenAtUs - arrival.atUs) / 1000 : null,
      handOverMs: wasFree && inline !== true ? handOverUs / 1000 : null,
      wakeMs: inline === true ? null : wakeUs(run, takenUs) / 1000,
      gatherMs: gatherUs / 1000,
      scatterMs: scatterUs / 1000,
    }
  })
}

/** Instances that ran something in a recording. */
export function instancesIn(arrivals: readonly Arrival[]): number {
  return new Set(arrivals.flatMap(({ run }) => run?.instance ?? [])).size
}

/** Whether the application's thread runs some batches itself, as it did in a recording. */
export function inlineIn(arrivals: readonly Arrival[]): Overheads['inline'] {
  return arrivals.some(({ run }) => run?.inline === true) ? defaultInline : null
}

function startUs({ takenAtUs, gatherUs, handOverUs }: ArrivalRun): number {
  return takenAtUs + gatherUs + handOverUs
}

/** How long it took after a run until the application's thread did something about it: took the next batch, or its outputs. */
function wakeUs(run: ArrivalRun, takenUs: readonly number[]): number {
  const endUs = startUs(run) + run.runUs
  return Math.min(run.wakeUs, (takenUs[countUpTo(takenUs, endUs)] ?? Infinity) - endUs)
}

/** How many of ascending numbers are at most `limit`. */
function countUpTo(ascending: readonly number[], limit: number): number {
  let [low, high] = [0, ascending.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (ascending[middle]! <= limit) low = middle + 1
    else high = middle
  }
  return low
}
