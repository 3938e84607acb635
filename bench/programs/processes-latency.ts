import { connect } from 'zerohop/processes'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { PingPong, ProcessPingPong } from '../ping-pong.ts'
import { feedsFor, openServer } from '../server.ts'
import { median } from '../statistics.ts'

/** One caller, of an engine of its own process and of one that is served. */
export interface ProcessesLatencyInput {
  readonly model: BenchModel
  /** Where that is served. */
  readonly path: string
  readonly blocks: number
  readonly requestsPerBlock: number
}

/** Medians, in microseconds. */
export type ProcessesLatencyResult = Readonly<
  Record<'in process' | 'shared memory' | 'socket' | 'ping-pong' | 'ping-pong of processes', number>
>

const { model, path, blocks, requestsPerBlock } = input<ProcessesLatencyInput>()
const feeds = feedsFor(model, 1)
const pingPong = new PingPong()
const processPingPong = new ProcessPingPong()
const own = await openServer('native')
const loaded = await own.load({ model })
const [rings, socket] = await Promise.all([connect(path), connect(path, { sharedMemory: false })])
const requests = {
  'in process': () => loaded.infer(feeds),
  'shared memory': () => rings.infer('model', feeds),
  socket: () => socket.infer('model', feeds),
  'ping-pong': () => pingPong.play(),
  'ping-pong of processes': () => processPingPong.play(),
}

const found = new Map<string, number[]>(Object.keys(requests).map((name) => [name, []]))
for (let block = -1; block < blocks; block++) {
  for (const [name, request] of Object.entries<() => Promise<unknown>>(requests)) {
    const times: number[] = []
    for (let count = 0; count < requestsPerBlock; count++) {
      const startMs = performance.now()
      await request()
      times.push((performance.now() - startMs) * 1000)
    }
    if (block >= 0) found.get(name)!.push(median(times)) // the first block only warms up
  }
}
processPingPong.end()
await Promise.all([rings.close(), socket.close(), own.close(), pingPong.end()])
answer(Object.fromEntries([...found].map(([name, medians]) => [name, median(medians)])))
