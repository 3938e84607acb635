import { describe, expect, it, vi } from 'vitest'
import type { Executor, ExecutorEvents } from '../../src/run/executors/executor.ts'
import type { BatchSource } from '../../src/run/batch-source.ts'
import type { ThreadSource } from '../../src/run/thread-source.ts'
import { Worker } from '../../src/run/worker.ts'
import { FakeClock } from '../fake-clock.ts'

/** A worker over threads that are no threads. */
function bench(start: () => Promise<void>) {
  const clock = new FakeClock()
  const events: ExecutorEvents[] = []
  const threads: ThreadSource<Executor> = {
    executor: (told) => {
      events.push(told)
      return {
        submit: vi.fn(),
        takeBack: () => true,
        drainCompletions: vi.fn(),
        abandon: vi.fn(),
      } as unknown as Executor
    },
    start,
    failure: async () => 'it died',
    leave: () => Promise.resolve(),
    submitted: vi.fn(),
  }
  const changed = vi.fn()
  return { clock, events, changed, worker: new Worker(threads, clock, changed) }
}

const source = (nextBatch: BatchSource['nextBatch']) => ({ weight: 1, nextBatch }) as unknown as BatchSource

describe('a worker', () => {
  it('whose first thread dies over its start has failed, and starts no other', async () => {
    let fail!: (reason: Error) => void
    const start = vi.fn(() => new Promise<void>((_, reject) => (fail = reject)))
    const { clock, events, changed, worker } = bench(start)
    const started = worker.start()
    events[0]!.died()
    fail(new Error('it died'))
    await expect(started).rejects.toThrow('it died')
    clock.advanceBy(60_000)
    expect(start).toHaveBeenCalledOnce()
    expect(changed.mock.calls).toEqual([['failed', 'it died']])
  })

  it('gives batches of others when one source has thrown', async () => {
    const { worker } = bench(async () => {})
    await worker.start()
    const bad = source(() => {
      throw new Error('of its own')
    })
    const good = source(vi.fn(() => null))
    worker.join(bad)
    worker.join(good)
    expect(() => worker.offer(bad)).toThrow('of its own')
    worker.part(bad)
    worker.offer(good)
    expect(good.nextBatch).toHaveBeenCalled()
  })
})
