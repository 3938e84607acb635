import { Worker } from 'node:worker_threads'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor, openServer } from '../server.ts'
import { median, percentile } from '../statistics.ts'

/** What to measure: one caller, one request at a time. */
export interface LatencyInput {
  readonly model: BenchModel
  readonly blocks: number
  readonly requestsPerBlock: number
}

/** All in microseconds; medians of the blocks. */
export interface LatencyResult {
  readonly plain: { p50: number; p99: number }
  readonly ours: { p50: number; p99: number }
  readonly pingPong: { p50: number; p99: number }
}

/** The other end of the ping-pong: answers each notification, asleep in between. */
const echo = `
const { workerData } = require('node:worker_threads')
;(async () => {
  for (let turn = 0; ; turn++) {
    const wait = Atomics.waitAsync(workerData, 0, turn)
    if (wait.async) await wait.value
    Atomics.store(workerData, 1, turn + 1)
    Atomics.notify(workerData, 1)
  }
})()
setInterval(() => {}, 1 << 30)`

async function measure(requests: number, request: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = []
  for (let count = 0; count < requests; count++) {
    const startMs = performance.now()
    await request()
    times.push((performance.now() - startMs) * 1000)
  }
  return times
}

const { model, blocks, requestsPerBlock } = input<LatencyInput>()
const words = new Int32Array(new SharedArrayBuffer(8))
const worker = new Worker(echo, { eval: true, workerData: words })
let turn = 0
async function pingPong(): Promise<void> {
  const wait = Atomics.waitAsync(words, 1, turn)
  Atomics.store(words, 0, ++turn)
  Atomics.notify(words, 0)
  if (wait.async) await wait.value
}

const servers = [await openServer('plain'), await openServer('ours')] as const
const [plain, ours] = [await servers[0].load({ model }), await servers[1].load({ model })]
const feeds = feedsFor(model, 1)
const requests = {
  pingPong,
  plain: () => plain.infer(feeds),
  ours: () => ours.infer(feeds),
}
const found = { pingPong: [] as number[][], plain: [] as number[][], ours: [] as number[][] }
for (let block = -1; block < blocks; block++) {
  for (const name of ['pingPong', 'plain', 'ours'] as const) {
    const times = await measure(requestsPerBlock, requests[name])
    if (block >= 0) found[name].push(times) // the first block only warms up
  }
}
const summary = (series: number[][]) => ({
  p50: median(series.map((times) => median(times))),
  p99: median(series.map((times) => percentile(times, 0.99))),
})
await Promise.all([...servers.map((server) => server.close()), worker.terminate()])
answer({ plain: summary(found.plain), ours: summary(found.ours), pingPong: summary(found.pingPong) } satisfies LatencyResult)
