import { PerformanceObserver } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine, InferenceError } from 'zerohop'
import { mulberry32 } from '../../test/models/random.ts'
import { plainTimers, type Waiting } from '../baselines/plain-timers.ts'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor } from '../server.ts'
import { percentile } from '../statistics.ts'

/** Far more requests than the model can answer, each with a timeout of its own. */
export interface TimeoutsInput {
  readonly side: 'ours' | 'plain'
  readonly model: BenchModel
  readonly maxBatchSize: number
  readonly requestsPerSecond: number
  readonly shortestMs: number
  readonly longestMs: number
  readonly warmupSeconds: number
  readonly seconds: number
}

/** How late the timeouts came. */
export interface TimeoutsResult {
  /** Below 0 when one came too early. */
  readonly minMs: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  readonly timedOut: number
  readonly answered: number
  /** Most requests that waited at once. */
  readonly mostQueued: number
  /** The longest collection of garbage, and the share of the time that they held the event loop. */
  readonly gcMaxMs: number
  readonly gcShare: number
}

const sendEveryMs = 1

const { side, model, maxBatchSize, requestsPerSecond, shortestMs, longestMs, warmupSeconds, seconds } =
  input<TimeoutsInput>()
const waiting = side === 'ours' ? await ours() : await plainTimers(model, maxBatchSize)
const random = mulberry32(1)
const latenessMs: number[] = []
let unsettled = 0 // counted, not kept: what is measured should not be the collection of our own notes
let answered = 0
let mostQueued = 0
let gcMs: number[] = []
new PerformanceObserver((list) => gcMs.push(...list.getEntries().map(({ duration }) => duration))).observe({
  entryTypes: ['gc'],
})

async function ours(): Promise<Waiting> {
  const engine = new InferenceEngine()
  const loaded = await engine.load('slow', { path: model.path, maxBatchSize })
  const feeds = feedsFor(model, 1)
  return {
    wait: (timeoutMs) => loaded.infer(feeds, { timeoutMs }),
    count: () => loaded.capacity().waiting,
    close: () => engine.close(),
  }
}

async function send(measured: boolean): Promise<void> {
  const timeoutMs = shortestMs + random() * (longestMs - shortestMs)
  const dueMs = performance.now() + timeoutMs
  unsettled++
  try {
    await waiting.wait(timeoutMs)
    answered++
  } catch (error) {
    const lateMs = performance.now() - dueMs
    if (!(error instanceof InferenceError) || error.code !== 'ERR_TIMEOUT') throw error
    if (measured) latenessMs.push(lateMs)
  } finally {
    unsettled--
  }
}

/** Sends for so long, evenly; what the loop missed is made up for. */
async function sendFor(runMs: number, measured: boolean): Promise<void> {
  const startMs = performance.now()
  let sent = 0
  for (let passedMs = 0; passedMs < runMs; passedMs = performance.now() - startMs) {
    for (; sent < (passedMs / 1000) * requestsPerSecond; sent++) {
      void send(measured)
    }
    mostQueued = Math.max(mostQueued, waiting.count())
    await sleep(sendEveryMs)
  }
}

await sendFor(warmupSeconds * 1000, false)
gcMs = []
await sendFor(seconds * 1000, true)
const gcTotalMs = gcMs.reduce((sum, ms) => sum + ms, 0)
const [gcMaxMs, gcShare] = [Math.max(0, ...gcMs), gcTotalMs / (seconds * 1000)]
while (unsettled > 0) await sleep(sendEveryMs)
await waiting.close()
if (latenessMs.length === 0)
  throw new Error(
    `Expected requests that time out; all ${answered} were answered: the model is too fast for this load.`,
  )
answer({
  minMs: percentile(latenessMs, 0),
  p50Ms: percentile(latenessMs, 0.5),
  p99Ms: percentile(latenessMs, 0.99),
  maxMs: percentile(latenessMs, 1),
  timedOut: latenessMs.length,
  answered,
  mostQueued,
  gcMaxMs,
  gcShare,
} satisfies TimeoutsResult)
