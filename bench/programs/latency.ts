import { setTimeout as sleep } from 'node:timers/promises'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { PingPong } from '../ping-pong.ts'
import { feedsFor, openServer } from '../server.ts'
import type { Side } from '../side.ts'
import { median, middleBy, percentile } from '../statistics.ts'

/** What to measure: one caller, one request at a time. */
export interface LatencyInput {
  readonly model: BenchModel
  readonly sides: readonly Side[]
  readonly blocks: number
  readonly requestsPerBlock: number
  /** Requests that each come after {@link idleMs} without any. */
  readonly requestsAfterIdle: number
}

interface Beside {
  readonly own: number
  readonly plain: number
}

/** Of one side, in microseconds. */
export interface LatencyTimes {
  /** Medians of the blocks. */
  readonly p50: number
  readonly p99: number
  /** The median to that of plain in the same block; median of the blocks. */
  readonly toPlain: number
  /** Both medians of the block in which that ratio was the one in the middle. */
  readonly beside: Beside
  /** Median of the requests after a pause. */
  readonly afterIdle: number
}

export type LatencyResult = Readonly<Record<Side | 'ping-pong', LatencyTimes>>

const idleMs = 100

const ratioOf = ({ own, plain }: Beside): number => own / plain

async function measure(requests: number, request: () => Promise<unknown>, pauseMs = 0): Promise<number[]> {
  const times: number[] = []
  for (let count = 0; count < requests; count++) {
    if (pauseMs > 0) await sleep(pauseMs)
    const startMs = performance.now()
    await request()
    times.push((performance.now() - startMs) * 1000)
  }
  return times
}

const { model, sides, blocks, requestsPerBlock, requestsAfterIdle } = input<LatencyInput>()
const pingPong = new PingPong()

const feeds = feedsFor(model, 1)
const servers = await Promise.all(sides.map((side) => openServer(side)))
const requests = new Map<string, () => Promise<unknown>>([['ping-pong', () => pingPong.play()]])
for (const [index, side] of sides.entries()) {
  const loaded = await servers[index]!.load({ model })
  requests.set(side, () => loaded.infer(feeds))
}

const found = new Map([...requests.keys()].map((name) => [name, [] as number[][]]))
for (let block = -1; block < blocks; block++) {
  for (const [name, request] of requests) {
    const times = await measure(requestsPerBlock, request)
    if (block >= 0) found.get(name)!.push(times) // the first block only warms up
  }
}
const plain = found.get('plain')!.map(median)
const result: Record<string, LatencyTimes> = {}
for (const [name, request] of requests) {
  const series = found.get(name)!
  const besides = series.map((times, block): Beside => ({ own: median(times), plain: plain[block]! }))
  result[name] = {
    p50: median(besides.map(({ own }) => own)),
    p99: median(series.map((times) => percentile(times, 0.99))),
    toPlain: median(besides.map(ratioOf)),
    beside: middleBy(besides, ratioOf)!,
    afterIdle: median(await measure(requestsAfterIdle, request, idleMs)),
  }
}
await Promise.all([...servers.map((server) => server.close()), pingPong.end()])
answer(result as LatencyResult)
