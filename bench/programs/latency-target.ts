import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine, InferenceError } from 'zerohop'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor } from '../server.ts'
import { median, percentile } from '../statistics.ts'
import { openLoop, poissonTimes } from './open-loop.ts'

/** A model under a load that does not wait for answers, after a closed loop that does. */
export interface LatencyTargetInput {
  readonly model: BenchModel
  readonly maxBatchSize: number
  /** Left out: batches as large as `maxBatchSize` and no refusals. */
  readonly latencyTargetMs?: number
  /** Callers of the closed loop. */
  readonly callers: number
  readonly closedLoopSeconds: number
  /** Within what an answer counts, in milliseconds; whether or not the engine knows. */
  readonly wantedMs: number
  /** 0 for the closed loop alone. */
  readonly ratePerSecond: number
  readonly seed: number
  readonly seconds: number
}

/** What it came to. Latencies are counted from when a request was to be sent. */
export interface LatencyTargetResult {
  /** Answers per second of the closed loop. */
  readonly capacityPerSecond: number
  /** Median of ONNX Runtime's runs in it. */
  readonly runMs: number
  readonly sent: number
  readonly answered: number
  readonly refused: number
  /** Answered too late, or not at all until then. */
  readonly late: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Answers in time per second, as they came. */
  readonly goodputPerSecond: number
  readonly meanBatchRows: number
  /** How late requests were sent; the driver's own doing. */
  readonly sentLateP99Ms: number
}

/** How long a caller of the closed loop waits that was refused. */
const refusedPauseMs = 5

const {
  model,
  maxBatchSize,
  latencyTargetMs,
  callers,
  closedLoopSeconds,
  wantedMs,
  ratePerSecond,
  seed,
  seconds,
} = input<LatencyTargetInput>()
const engine = new InferenceEngine()
const loaded = await engine.load('model', {
  path: model.path,
  maxBatchSize,
  ...(latencyTargetMs === undefined ? {} : { latencyTargetMs }),
})
const feeds = feedsFor(model, 1)

const isRefusal = (error: unknown) => error instanceof InferenceError && error.code === 'ERR_DEADLINE'

async function closedLoop(): Promise<{ capacityPerSecond: number; runMs: number }> {
  const startMs = performance.now()
  const halfMs = startMs + closedLoopSeconds * 500 // the first half warms up
  const endMs = startMs + closedLoopSeconds * 1000
  const answersMs: number[] = []
  const runsMs: number[] = []
  const caller = async (): Promise<void> => {
    for (let nowMs = startMs; nowMs < endMs;) {
      try {
        const { report } = await loaded.infer(feeds, { report: true })
        nowMs = performance.now()
        if (nowMs < halfMs) continue
        answersMs.push(nowMs)
        runsMs.push(report.computeMs)
      } catch (error) {
        if (!isRefusal(error)) throw error
        await sleep(refusedPauseMs)
        nowMs = performance.now()
      }
    }
  }
  await Promise.all(Array.from({ length: callers }, caller))
  // From one batch's answers to another's: a window that ends anywhere would cut one.
  const [firstMs, lastMs] = [answersMs[0] ?? NaN, answersMs.at(-1) ?? NaN]
  const after = answersMs.filter((atMs) => atMs > firstMs + 1).length
  return { capacityPerSecond: (after / (lastMs - firstMs)) * 1000, runMs: median(runsMs) }
}

async function poisson(): Promise<Omit<LatencyTargetResult, 'capacityPerSecond' | 'runMs'>> {
  const before = loaded.stats()
  const endMs = performance.now() + seconds * 1000
  const latenciesMs: number[] = []
  const sentLateMs: number[] = []
  let [refused, inTime, goodAnswers] = [0, 0, 0]
  const send = async (intendedMs: number): Promise<void> => {
    sentLateMs.push(performance.now() - intendedMs)
    try {
      await loaded.infer(feeds)
    } catch (error) {
      if (isRefusal(error)) refused++
      else if (!(error instanceof InferenceError && error.code === 'ERR_CLOSED')) throw error
      return
    }
    const nowMs = performance.now()
    latenciesMs.push(nowMs - intendedMs)
    if (nowMs - intendedMs > wantedMs) return
    inTime++
    if (nowMs <= endMs) goodAnswers++
  }
  const requests: Promise<void>[] = []
  await openLoop(
    poissonTimes(seed, ratePerSecond, seconds * 1000),
    (intendedMs) => void requests.push(send(intendedMs)),
  )
  // Who has no answer by then is late: nobody waits for what an overload has left in the queue.
  await Promise.race([Promise.all(requests), sleep(endMs - performance.now() + wantedMs)])
  await engine.destroy()
  await Promise.all(requests)
  const after = loaded.stats()
  return {
    sent: requests.length,
    answered: latenciesMs.length,
    refused,
    late: requests.length - refused - inTime,
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
    goodputPerSecond: goodAnswers / seconds,
    meanBatchRows:
      (after.inferenceCount - before.inferenceCount) / (after.executionCount - before.executionCount),
    sentLateP99Ms: percentile(sentLateMs, 0.99),
  }
}

const closed = await closedLoop()
const nothing = {
  sent: 0,
  answered: 0,
  refused: 0,
  late: 0,
  p50Ms: 0,
  p99Ms: 0,
  goodputPerSecond: 0,
  meanBatchRows: 0,
  sentLateP99Ms: 0,
}
const open = ratePerSecond > 0 ? await poisson() : nothing
await engine.close()
answer({ ...closed, ...open } satisfies LatencyTargetResult)
