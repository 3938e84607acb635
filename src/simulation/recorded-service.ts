import type { Arrival, ArrivalRun } from '../arrivals/arrival.ts'
import type { RecordedConfig } from '../arrivals/recorded-config.ts'
import { defaultInline } from '../config/engine-options.ts'
import { firstGivenUs } from './followers.ts'
import type { Overheads } from './overheads.ts'
import type { RecordedRun } from './recorded-run.ts'
import { bucketOf } from './recorded-traffic.ts'

/** The runs of a recording, in the order of their starts. */
export function runsOf(arrivals: readonly Arrival[]): RecordedRun[] {
  const recorded = arrivals.flatMap((arrival) => (arrival.runs ?? []).map((run, part) => ({ arrival, run, part }))).sort((a, b) => startUs(a.run) - startUs(b.run))
  const ends = recorded.map(({ run }) => startUs(run) + run.runUs + run.wakeUs).sort((a, b) => a - b)
  const takenUs = recorded.map(({ run }) => run.takenAtUs).sort((a, b) => a - b)
  const config = configIn(arrivals)
  const instances = config?.instances ?? instancesIn(arrivals)
  const freeUs = new Map<string, number>()
  return recorded.map(({ arrival, run, part }) => {
    const { rows, runUs, instance, inline = false, handOverUs, gatherUs } = run
    const endUs = freeUs.get(instance) ?? 0
    const wasFree = endUs <= run.takenAtUs + gatherUs
    freeUs.set(instance, startUs(run) + runUs)
    const running = countUpTo(takenUs, arrival.atUs) - countUpTo(ends, arrival.atUs)
    const waitedMs = part === 0 ? (run.takenAtUs - arrival.atUs) / 1000 : null
    return {
      atMs: startUs(run) / 1000,
      rows,
      ms: runUs / 1000,
      bucketKey: bucketOf(arrival),
      turnMs: running < instances && closedWhenSeen(run, config?.maxQueueDelayMs ?? 0) ? waitedMs : null,
      timerMs: waitedMs !== null && run.reason === 'delay' && config !== null ? Math.max(0, waitedMs - config.maxQueueDelayMs) : null,
      handOverMs: wasFree && !inline ? handOverUs / 1000 : null,
      betweenMs: wasFree || inline ? null : (startUs(run) - endUs) / 1000,
      inlineMs: inline ? handOverUs / 1000 : null,
      wakeMs: inline ? null : wakeUs(run, takenUs) / 1000,
      gatherMs: gatherUs / 1000,
      // Its answers are given as soon as its outputs are handed out.
      scatterMs: (firstGivenUs(arrival, run) - startUs(run) - runUs - run.wakeUs) / 1000,
    }
  })
}

/** The configuration that a recording begins with; `null` where it has none. */
export function configIn(arrivals: readonly Arrival[]): RecordedConfig | null {
  return arrivals.find(({ config }) => config !== undefined)?.config ?? null
}

/** Whether a batch was closed as soon as an instance and the event loop came to it, or before: it waited for nothing else. */
function closedWhenSeen({ reason }: ArrivalRun, maxQueueDelayMs: number): boolean {
  return reason === undefined || reason === 'idle' || reason === 'bucket' || ((reason === 'full' || reason === 'preferred') && maxQueueDelayMs === 0)
}

/** Instances that ran something in a recording. */
export function instancesIn(arrivals: readonly Arrival[]): number {
  return new Set(arrivals.flatMap(({ runs = [] }) => runs.map(({ instance }) => instance))).size
}

/** Whether the application's thread runs some batches itself, as it did in a recording. */
export function inlineIn(arrivals: readonly Arrival[]): Overheads['inline'] {
  return arrivals.some(({ runs = [] }) => runs.some(({ inline }) => inline === true)) ? defaultInline : null
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
