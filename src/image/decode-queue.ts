import { availableParallelism } from 'node:os'
import { invalidArgument } from '../errors.ts'

let limit = availableParallelism()
let running = 0
const waiting: (() => void)[] = []

/**
 * How many images may be decoded at once in this process; the others wait their turn. Gives the limit, after setting it
 * if a number is given. Default: the cores this process may use. Decoding runs on libuv's thread pool, so no more than
 * `UV_THREADPOOL_SIZE` (4 unless set at start) really run at a time.
 */
export function imageConcurrency(concurrency?: number): number {
  if (concurrency === undefined) return limit
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    throw invalidArgument('concurrency', 'a whole number of at least 1', concurrency)
  }
  limit = concurrency
  while (running < limit && waiting.length > 0) startNext()
  return limit
}

/** Runs `task` when fewer than the limit run, in the order of the calls. */
export async function inTurn<T>(task: () => Promise<T>): Promise<T> {
  if (running < limit) running++
  else await new Promise<void>((resolve) => waiting.push(resolve))
  try {
    return await task()
  } finally {
    running--
    if (running < limit && waiting.length > 0) startNext()
  }
}

/** The place is taken here, not by the woken call: another call could slip in between. */
function startNext(): void {
  running++
  waiting.shift()?.()
}
