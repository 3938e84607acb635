import fs from 'node:fs'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { readTraceFile } from '../../packages/perf/src/trace-files/read-trace-file.ts'
import { loadNumber, one } from '../pipelines/arithmetic.ts'
import { replaceBuiltIn } from '../support/built-in.ts'
import { deferred } from '../support/deferred.ts'
import { until } from '../support/until.ts'
import { tracedEngine } from './traced-engine.ts'

/** A disk that answers to what is written once it is let. */
const disk = { gate: null as Promise<void> | null, calls: 0 }
let restore: () => void
beforeEach(() => {
  vi.spyOn(process, 'emitWarning').mockImplementation((() => {}) as never)
  restore = replaceBuiltIn(
    fs,
    'write',
    (write) =>
      ((...args: Parameters<typeof write>) => {
        disk.calls++
        void Promise.resolve(disk.gate).then(() => write(...args))
      }) as typeof write,
  )
})
afterEach(() => {
  vi.useRealTimers() // before modules are synchronised, which would keep the fakes
  restore()
  disk.gate = null
  disk.calls = 0
})

/** An engine with a request whose trace is on its way to a disk that does not answer. */
async function hangingEngine() {
  const opened = deferred<void>()
  disk.gate = opened.promise
  const traced = tracedEngine()
  await loadNumber(traced.engine, 'm', (x) => x)
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const call = (x: number) => traced.engine.infer('m', { x: one(x) })
  await call(1)
  await until(() => disk.calls === 1)
  return { ...traced, call, answer: () => opened.resolve() }
}

describe('a disk that hangs', () => {
  it('holds no request, flush() and close() for five seconds, and is told of', async () => {
    const { engine, call, answer } = await hangingEngine()
    expect(await call(2)).toMatchObject({ y: { data: one(2) } })
    const flushed = engine.trace.flush()
    const closed = engine.close()
    await vi.advanceTimersByTimeAsync(5000)
    await Promise.all([flushed, closed])
    expect(engine.trace.stats()).toMatchObject({
      begun: 2,
      written: 0,
      failure: { reason: 'the disk has not answered for 5 s' },
    })
    answer()
  })

  it('takes no more traces, and those that wait once it answers', async () => {
    const { engine, call, answer, file } = await hangingEngine()
    await call(2)
    await vi.advanceTimersByTimeAsync(5000)
    await call(3)
    await engine.trace.flush()
    expect(engine.trace.stats()).toMatchObject({ begun: 3, written: 0, failed: 1 })
    vi.useRealTimers()
    answer()
    await until(() => engine.trace.stats().written === 2)
    expect((await readTraceFile(file)).traces).toHaveLength(2)
    await engine.close()
    expect(engine.trace.stats().bufferedBytes).toBe(0)
  })
})

describe('flush()', () => {
  it('does not wait for what is traced after it', async () => {
    const { engine, file } = tracedEngine()
    await loadNumber(engine, 'm', (x) => x)
    let isOver = false
    const asked = Array.from({ length: 4 }, async () => {
      while (!isOver) await engine.infer('m', { x: one(1) })
    })
    await until(() => engine.trace.stats().written > 0)
    const { begun } = engine.trace.stats()
    await engine.trace.flush()
    isOver = true
    await Promise.all(asked)
    expect(engine.trace.stats().written).toBeGreaterThanOrEqual(begun - 4)
    await engine.close()
    expect((await readTraceFile(file)).traces).toHaveLength(engine.trace.stats().begun)
  })
})
