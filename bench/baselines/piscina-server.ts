import { availableParallelism } from 'node:os'
import { Piscina } from 'piscina'
import type { Answer, Server } from '../side.ts'
import { plainOptions } from './plain-options.ts'

/** A session in each thread of a Piscina as it comes, a task for each request. */
export function piscinaServer(): Server {
  const pools: Piscina[] = []
  return {
    async load({ model: { path, input }, intraOpNumThreads = 1, spinUs }) {
      const filename = new URL('piscina-session.mjs', import.meta.url).href
      const threads = availableParallelism()
      // What clients have left behind is still run: a thread that is ended inside ONNX Runtime takes the process with it.
      const closeTimeout = 600_000
      const pool = new Piscina({
        filename,
        minThreads: threads,
        maxThreads: threads,
        closeTimeout,
        workerData: { path, options: plainOptions({ intraOpNumThreads, spinUs }) },
      })
      pools.push(pool)
      return {
        infer: (feeds) =>
          pool.run({ name: input, data: feeds[input]!.data, dims: feeds[input]!.dims }) as Promise<Answer>,
        meanBatchRows: () => 1,
      }
    },
    async close() {
      await Promise.all(pools.map((pool) => pool.close()))
    },
  }
}
