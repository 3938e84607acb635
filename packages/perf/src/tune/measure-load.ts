import type { Model, ModelMetadata, ModelOptions } from 'zerohop'
import { inputDefaults, type SampleSource, sampleSource } from '../perf/input/sample-source.ts'
import { ClosedLoop } from '../perf/load/closed-loop.ts'
import { loadClock, pause } from '../perf/load/load.ts'
import { metronome, OpenLoop, poissonSchedule } from '../perf/load/open-loop.ts'
import { Recorder } from '../perf/load/recorder.ts'
import { sender } from '../perf/open-target.ts'
import type { MeasuredWord, MeasureTask, RequestSettings } from './measuring-process.ts'

const seed = 1

/**
 * Puts a model under load, and measures it for one window. In a closed loop the window begins and ends when
 * answers arrive, so that whole batches of a slow model are counted over the time that they took. A window
 * with arbitrary ends would cut a batch.
 */
export async function measureLoad(
  model: Model,
  given: SampleSource,
  { load, warmupMs, windowMs }: MeasureTask,
): Promise<MeasuredWord> {
  /** Called when the next request is made, which in a closed loop means that one was answered. */
  let onNext: (() => void) | null = null
  const source: SampleSource = {
    size: given.size,
    next: (caller) => {
      onNext?.()
      return given.next(caller)
    },
  }
  const recorder = new Recorder(loadClock)
  const ending = new AbortController()
  const requests =
    load.rate === undefined
      ? new ClosedLoop(source, load.concurrency)
      : new OpenLoop(source, poissonSchedule(load.rate, seed), { pacer: metronome })
  /** Resolves when the next answers have arrived; those of one batch arrive together. */
  const nextAnswers = () =>
    new Promise((resolve) => {
      onNext = () => {
        onNext = null
        setImmediate(resolve)
      }
    })
  const cut = async (afterMs: number) => {
    await pause(loadClock, afterMs)
    if (!requests.isOpen) await nextAnswers()
    return { window: recorder.cut(), runs: model.stats().executionCount }
  }
  requests.start(sender(model, requests.isOpen ? ending.signal : null), recorder)
  const before = await cut(warmupMs)
  const { window, runs } = await cut(windowMs)
  const memoryBytes = process.resourceUsage().maxRSS * 1024 // the maximum, which includes loading
  const { instanceCount } = model.stats()
  const stopped = requests.stop()
  ending.abort() // requests that wait because the rate is too high
  await stopped
  const { seconds, requestCount, inferenceCount, latency, failureCount, failures } = window
  const runCount = runs - before.runs
  return {
    type: 'measured',
    measurement: {
      rowsPerSecond: seconds > 0 ? inferenceCount / seconds : 0,
      p50Ms: latency.quantileUs(0.5) / 1000,
      p99Ms: latency.quantileUs(0.99) / 1000,
      memoryBytes,
      meanBatchRows: runCount > 0 ? inferenceCount / runCount : 0,
      failures: failureCount + (requestCount === 0 ? 1 : 0),
    },
    failure:
      failureCount > 0
        ? await reasonOf(failures, model, given)
        : requestCount === 0
          ? 'no request was answered'
          : null,
    runMs: runCount > 0 ? (instanceCount * seconds * 1000) / runCount : 0,
  }
}

/** The error codes, and the message of one further request of the same kind. */
async function reasonOf(
  failures: Readonly<Record<string, number>>,
  model: Model,
  source: SampleSource,
): Promise<string> {
  const counts = Object.entries(failures).map(([code, count]) => `${count} requests with ${code}`)
  const { feeds, options } = source.next(0)
  const message = await model.infer(feeds, options).then(
    () => null,
    (error: Error) => error.message,
  )
  return `${counts.join(', ')} failed${message === null ? '' : `: ${message}`}`
}

/** Number of different requests; then they repeat. */
const differentRequests = 16

/**
 * The requests to send while a model is measured.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for data or shapes that do not fit the model, or are missing.
 */
export function requestSource(
  metadata: ModelMetadata,
  { optionalInputs }: ModelOptions,
  { rows, shapes, inputData }: RequestSettings,
): Promise<SampleSource> {
  return sampleSource(metadata, {
    ...inputDefaults,
    inputData,
    batchSize: rows,
    shapes: new Map(shapes),
    uniqueInputs: differentRequests,
    optionalInputs,
  })
}
