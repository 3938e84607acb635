import { type Arrival, type ArrivalRun, type RecordedConfig, defaultInline } from 'zerohop/internals'
import type { Overheads } from './overheads.ts'
import type { RecordedRun } from './recorded-run.ts'
import { RecordedThread, type NotedRun } from './recorded-thread.ts'
import { bucketOf } from './recorded-traffic.ts'

/** The runs of a recording, in the order of their starts. */
export function runsOf(arrivals: readonly Arrival[]): RecordedRun[] {
  const noted = arrivals.flatMap((arrival, request) =>
    (arrival.runs ?? []).map((run, part): NotedRun => ({ arrival, request, run, part })),
  )
  noted.sort((a, b) => startUs(a.run) - startUs(b.run))
  const thread = new RecordedThread(arrivals, noted)
  const config = configIn(arrivals)
  const instances = config?.instances ?? instancesIn(arrivals)
  const freeUs = new Map<string, number>()
  return noted.map((own) => {
    const { arrival, request, run, part } = own
    const { rows, runUs, instance, inline = false, handOverUs, gatherUs, takenAtUs } = run
    const endUs = freeUs.get(instance) ?? 0
    const wasFree = endUs <= takenAtUs + gatherUs
    freeUs.set(instance, startUs(run) + runUs)
    const waitedMs = part === 0 ? (takenAtUs - arrival.atUs) / 1000 : null
    return {
      atMs: startUs(run) / 1000,
      request,
      requests: run.requests,
      rows,
      ms: runUs / 1000,
      bucketKey: bucketOf(arrival),
      turnMs:
        thread.outAt(arrival.atUs) < instances && closedWhenSeen(run, config?.maxQueueDelayMs ?? 0)
          ? waitedMs
          : null,
      closingMs: toMs(thread.closingUs(own, instances)),
      timerMs:
        waitedMs !== null && run.reason === 'delay' && config !== null
          ? Math.max(0, waitedMs - config.maxQueueDelayMs)
          : null,
      handOverMs: wasFree && !inline ? handOverUs / 1000 : null,
      betweenMs: wasFree || inline ? null : (startUs(run) - endUs) / 1000,
      inlineMs: inline ? handOverUs / 1000 : null,
      wakeMs: inline ? null : thread.wakeUs(run) / 1000,
      gatherMs: gatherUs / 1000,
      scatterMs: thread.scatterUs(own) / 1000,
      answerMs: toMs(thread.answerUs(own)),
    }
  })
}

/** The configuration that a recording begins with; `null` where it has none. */
export function configIn(arrivals: readonly Arrival[]): RecordedConfig | null {
  return arrivals.find(({ config }) => config !== undefined)?.config ?? null
}

/** Whether a batch was closed as soon as an instance and the event loop came to it, or before: it waited for nothing else. */
function closedWhenSeen({ reason }: ArrivalRun, maxQueueDelayMs: number): boolean {
  return (
    reason === undefined ||
    reason === 'idle' ||
    reason === 'bucket' ||
    ((reason === 'full' || reason === 'preferred') && maxQueueDelayMs === 0)
  )
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

function toMs(us: number | null): number | null {
  return us === null ? null : us / 1000
}
