import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { InferenceError } from 'zerohop'
import type { BenchModel } from '../models.ts'

/** Requests that wait and give up. */
export interface Waiting {
  /** Resolves when answered, rejects with `ERR_TIMEOUT` when that takes longer than `timeoutMs`. */
  wait(timeoutMs: number): Promise<unknown>
  count(): number
  close(): Promise<void>
}

/**
 * What there would be without a scheduler: a timer for each request, beside a thread whose session is always busy. How
 * late its timers are is the machine's doing, and the least that can be hoped for.
 */
export async function plainTimers({ path, input, rowDims }: BenchModel, rows: number): Promise<Waiting> {
  const workerData = { path, input, dims: [rows, ...rowDims] }
  const worker = new Worker(new URL('busy-session.mjs', import.meta.url), { workerData })
  await once(worker, 'message')
  let count = 0
  return {
    wait(timeoutMs) {
      count++
      return new Promise((_, reject) => {
        setTimeout(() => {
          count--
          reject(new InferenceError('ERR_TIMEOUT', `waited ${timeoutMs} ms`))
        }, Math.ceil(timeoutMs))
      })
    },
    count: () => count,
    async close() {
      worker.postMessage('stop')
      await once(worker, 'exit')
    },
  }
}
