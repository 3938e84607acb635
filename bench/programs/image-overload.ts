import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine, InferenceError } from 'zerohop'
import { answer, input } from '../child.ts'
import { percentile } from '../statistics.ts'

/** More encoded images than can be answered, or a burst in a process that has hardly run. */
export interface ImageOverloadInput {
  readonly model: string
  /** Name of the model's input. */
  readonly input: string
  readonly images: readonly string[]
  readonly seconds: number
  readonly maxQueueSize: number
  readonly deadlineMs: number
  /** Times the capacity that is offered, one after the other; of none only a burst is measured. */
  readonly factors: readonly number[]
  /** Images at once after four that came one after the other. */
  readonly burst: number
}

/** What became of an offered load. */
export interface OfferedLoad {
  readonly factor: number
  readonly offered: number
  /** Within the deadline, per second of the load. */
  readonly answeredPerSecond: number
  readonly late: number
  readonly refused: number
  readonly refusedP50Ms: number
  readonly refusedP99Ms: number
  readonly refusedMaxMs: number
  /** Most requests that had been sent and not settled. */
  readonly mostHeld: number
  /** Most of them that had to wait, by `capacity()`. */
  readonly mostWaiting: number
  /** The rest: what ran, and what was being answered. */
  readonly mostInWork: number
}

export interface ImageOverloadResult {
  /** Closed loop of 32 callers, per second: before the loads and after. */
  readonly capacity: readonly number[]
  readonly maxBatchSize: number
  readonly loads: readonly OfferedLoad[]
  /** Of a burst with a deadline: how many were refused, and how long those took that were not. */
  readonly burst: {
    readonly refused: number
    readonly tookMs: number
    readonly estimatedMs: readonly number[]
  }
  /** How long the same burst takes without one. */
  readonly burstWithoutMs: number
}

const callers = 32
const sendEveryMs = 2

const {
  model: path,
  input: name,
  images,
  seconds,
  maxQueueSize,
  deadlineMs,
  factors,
  burst,
} = input<ImageOverloadInput>()
const files = images.map((file) => readFileSync(file))
const engine = new InferenceEngine()
const model = await engine.load('images', {
  path,
  inputs: [{ name, image: { channels: 'bgr' } }],
  ...(burst > 0 ? {} : { dynamicBatching: { defaultQueuePolicy: { maxQueueSize } } }),
})
let next = 0
const ask = (options = {}) => model.infer({ [name]: files[next++ % files.length]! }, options)

async function measureBurst(deadline: { deadlineMs?: number }): Promise<ImageOverloadResult['burst']> {
  const startMs = performance.now()
  const ends = await Promise.allSettled(Array.from({ length: burst }, () => ask(deadline)))
  const refused = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason as InferenceError] : []))
  return {
    refused: refused.length,
    tookMs: performance.now() - startMs,
    estimatedMs: refused.map(({ estimatedMs }) => estimatedMs ?? 0),
  }
}

async function closedLoop(): Promise<number> {
  const endMs = performance.now() + 1000 * seconds
  let answered = 0
  const startMs = performance.now()
  await Promise.all(Array.from({ length: callers }, async () => {
    for (; performance.now() < endMs; answered++) await ask()
  })) // prettier-ignore
  return (1000 * answered) / (performance.now() - startMs)
}

async function offer(factor: number, perSecond: number): Promise<OfferedLoad> {
  const refusedMs: number[] = []
  let [offered, settled, answered, late, mostHeld, mostWaiting, mostInWork] = [0, 0, 0, 0, 0, 0, 0]
  const startMs = performance.now()
  const all: Promise<void>[] = []
  const send = (): void => {
    const sentAtMs = performance.now()
    offered++
    all.push(ask({ deadlineMs }).then(
      () => void (performance.now() - sentAtMs <= deadlineMs ? answered++ : late++),
      () => void refusedMs.push(performance.now() - sentAtMs),
    ).finally(() => settled++)) // prettier-ignore
  }
  while (performance.now() - startMs < 1000 * seconds) {
    for (const due = Math.floor(((performance.now() - startMs) / 1000) * perSecond); offered < due;) send()
    const { waiting } = model.capacity()
    mostHeld = Math.max(mostHeld, offered - settled)
    mostWaiting = Math.max(mostWaiting, waiting)
    await sleep(sendEveryMs)
    mostInWork = Math.max(mostInWork, offered - settled - model.capacity().waiting) // what was refused has been told
  }
  await Promise.all(all)
  const of = (q: number) => (refusedMs.length === 0 ? 0 : percentile(refusedMs, q))
  return {
    factor, offered, answeredPerSecond: (1000 * answered) / (performance.now() - startMs), late, refused: refusedMs.length,
    refusedP50Ms: of(0.5), refusedP99Ms: of(0.99), refusedMaxMs: of(1), mostHeld, mostWaiting, mostInWork,
  } // prettier-ignore
}

const result: { -readonly [Figure in keyof ImageOverloadResult]: ImageOverloadResult[Figure] } = {
  capacity: [], maxBatchSize: model.metadata.maxBatchSize, loads: [], burst: { refused: 0, tookMs: 0, estimatedMs: [] }, burstWithoutMs: 0,
} // prettier-ignore
if (burst > 0) {
  for (let count = 0; count < 4; count++) await ask({ deadlineMs })
  result.burst = await measureBurst({ deadlineMs })
  result.burstWithoutMs = (await measureBurst({})).tookMs
} else {
  for (let count = 0; count < 20; count++) await ask()
  const capacity = [await closedLoop()]
  const loads: OfferedLoad[] = []
  for (const factor of factors) {
    loads.push(await offer(factor, factor * capacity[0]!))
    capacity.push(await closedLoop())
  }
  result.capacity = capacity
  result.loads = loads
}
await engine.close()
answer(result)
