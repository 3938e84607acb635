import { PerformanceObserver } from 'node:perf_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { answer, input } from '../child.ts'
import { QueueLoad, type QueueCase } from './queue-loads.ts'

/** What to measure. */
export interface SchedulerInput extends QueueCase {
  readonly seconds: number
}

/** Nanoseconds per request. */
export interface SchedulerResult {
  readonly enqueueNs: number
  readonly dispatchNs: number
  /** Of the whole loop: most of it falls between the measured parts, when the event loop turns. */
  readonly gcNs: number
  /** The longest dispatch of a batch. */
  readonly longestDispatchMs: number
}

/** Batches between two turns of the event loop. */
const batchesPerTurn = 256
/** Times that the whole queue is replaced before anything is measured, and in a measurement at least. */
const replacements = 2

const { seconds, ...queueCase } = input<SchedulerInput>()
const load = new QueueLoad(queueCase)
let gcMs = 0
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) gcMs += duration
}).observe({ entryTypes: ['gc'] })

/** Steady state: a batch leaves and as many requests come again. */
async function replace(runMs: number): Promise<SchedulerResult> {
  let [enqueueMs, dispatchMs, longestDispatchMs, requests] = [0, 0, 0, 0]
  await nextTurn()
  gcMs = 0
  const endMs = performance.now() + runMs
  while (performance.now() < endMs || requests < replacements * queueCase.queued) {
    for (let batch = 0; batch < batchesPerTurn; batch++) {
      const dispatchAtMs = performance.now()
      const taken = load.dispatch()
      const tookMs = performance.now() - dispatchAtMs
      dispatchMs += tookMs
      longestDispatchMs = Math.max(longestDispatchMs, tookMs)
      load.prepare(taken)
      const enqueueAtMs = performance.now()
      load.enqueue(taken)
      enqueueMs += performance.now() - enqueueAtMs
      requests += taken
    }
    await nextTurn()
  }
  const perRequestNs = (ms: number) => (ms * 1e6) / requests
  return {
    enqueueNs: perRequestNs(enqueueMs),
    dispatchNs: perRequestNs(dispatchMs),
    gcNs: perRequestNs(gcMs),
    longestDispatchMs,
  }
}

await replace((seconds * 1000) / 2)
const result = await replace(seconds * 1000)
load.close()
answer(result)
