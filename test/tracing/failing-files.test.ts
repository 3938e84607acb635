import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { TraceEvent } from '../../src/index.ts'
import { readTraceFile } from '../../packages/perf/src/trace-files/read-trace-file.ts'
import { TraceAccount, TraceWriter } from '../../src/observe/trace-writer.ts'
import { loadNumber, one } from '../pipelines/arithmetic.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'
import { tracedEngine } from './traced-engine.ts'

const warnings: string[] = []
beforeEach(() => {
  warnings.length = 0
  vi.spyOn(process, 'emitWarning').mockImplementation(
    ((_: string, { code }: { code: string }) => void warnings.push(code)) as never,
  )
})
afterEach(() => vi.restoreAllMocks())

/** A writer and what it is told. */
function writerTo(path: string, maxBytes = 1e6) {
  const told: TraceEvent[] = []
  const account = new TraceAccount(maxBytes, (event) => told.push(event))
  const writer = new TraceWriter(path, account)
  const add = (id: number) => {
    const text = `{"id":${id},"model_name":"m"}`
    expect(account.reserve(text.length)).toBe(true)
    writer.add(text, text.length, 0)
  }
  return { writer, account, told, add }
}

const ids = async (path: string) => (await readTraceFile(path)).traces.map(({ id }) => id)

describe('a file of traces', () => {
  it('is whole after each flush, and has all in order', async () => {
    const path = join(temporaryFolder({}), 'trace.json')
    const { writer, account, add } = writerTo(path)
    for (let id = 1; id <= 30; id++) {
      add(id)
      if (id % 7 !== 0) continue
      await writer.flush()
      expect(JSON.parse(readFileSync(path, 'utf8'))).toHaveLength(id)
    }
    await writer.close()
    expect(await ids(path)).toEqual(Array.from({ length: 30 }, (_, index) => index + 1))
    expect(account.statistics()).toMatchObject({ written: 30, bufferedBytes: 0, failure: null })
    add(31) // of a request that was still under way
    await writer.flush()
    expect(await ids(path)).toHaveLength(31)
  })

  it('is written at once as the process ends, also what was on its way', async () => {
    const path = join(temporaryFolder({}), 'trace.json')
    const { writer, add } = writerTo(path)
    add(1)
    await writer.flush()
    add(2)
    await new Promise(setImmediate) // it is about to be written
    add(3)
    writer.flushSync()
    expect(await ids(path)).toEqual([1, 2, 3])
    await writer.flush()
  })

  it('that is taken away is begun anew once it is opened again', async () => {
    const path = join(temporaryFolder({}), 'trace.json')
    const { writer, add, told } = writerTo(path)
    add(1)
    await writer.close()
    rmSync(path)
    add(2)
    await writer.flush()
    expect(await ids(path)).toEqual([2])
    expect(told).toEqual([])
  })
})

describe('a file that cannot be written', () => {
  it('in a folder that there is not loses its traces, is told once, and is tried again after a while', async () => {
    const folder = temporaryFolder({})
    const path = join(folder, 'gone', 'trace.json')
    const { writer, account, told, add } = writerTo(path)
    for (let id = 1; id <= 3; id++) {
      add(id)
      await writer.flush()
    }
    expect(account.statistics()).toMatchObject({
      written: 0,
      failed: 3,
      bufferedBytes: 0,
      failure: { file: path },
    })
    expect(told).toEqual([
      { type: 'failed', file: path, reason: expect.stringContaining('ENOENT') as string },
    ])
    expect(warnings).toEqual(['ZEROHOP_TRACE_FAILED'])
    mkdirSync(join(folder, 'gone'))
    const { now } = performance
    vi.spyOn(performance, 'now').mockImplementation(() => now.call(performance) + 2000)
    add(4)
    await writer.close()
    expect(await ids(path)).toEqual([4])
    expect(told).toHaveLength(1)
  })

  it.skipIf(!existsSync('/dev/full'))('as the disk is full loses its traces, and no request', async () => {
    const { engine } = tracedEngine({ file: '/dev/full' })
    const told: TraceEvent[] = []
    engine.on('trace', (event) => told.push(event))
    await loadNumber(engine, 'm', (x) => x)
    for (let count = 0; count < 3; count++) {
      expect(await engine.infer('m', { x: one(count) })).toMatchObject({ y: { data: one(count) } })
      await engine.trace.flush()
    }
    await engine.close()
    expect(engine.stats().traces).toMatchObject({
      begun: 3,
      written: 0,
      failed: 3,
      bufferedBytes: 0,
      failure: { file: '/dev/full', reason: expect.stringContaining('ENOSPC') as string },
    })
    expect(told).toHaveLength(1)
    expect(warnings).toEqual(['ZEROHOP_TRACE_FAILED'])
  })

  it.skipIf(process.platform === 'win32')(
    'as it is a pipe that nobody reads loses its traces, and nobody waits for it',
    async () => {
      const pipe = join(temporaryFolder({}), 'pipe')
      execFileSync('mkfifo', [pipe])
      const { engine } = tracedEngine({ file: pipe })
      await loadNumber(engine, 'm', (x) => x)
      await engine.infer('m', { x: one(1) })
      await engine.trace.flush()
      await engine.close()
      expect(engine.trace.stats()).toMatchObject({
        failed: 1,
        failure: { reason: expect.stringContaining('ENXIO') as string },
      })
    },
  )

  it('as it is a folder does not keep the engine from closing', async () => {
    const { engine } = tracedEngine({ file: temporaryFolder({}) })
    await loadNumber(engine, 'm', (x) => x)
    await engine.infer('m', { x: one(1) })
    await engine.close()
    expect(engine.trace.stats()).toMatchObject({
      failed: 1,
      failure: { reason: expect.stringContaining('EISDIR') as string },
    })
  })
})

describe('memory for traces', () => {
  it('is limited: what is beyond is dropped and counted, and the requests are answered', async () => {
    const { engine, traces } = tracedEngine({ maxBufferedBytes: 10_000 })
    await loadNumber(engine, 'm', (x) => x)
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, index) => engine.infer('m', { x: one(index) })),
    )
    expect(answers).toHaveLength(50)
    const kept = await traces()
    const { begun, written, dropped, bufferedBytes } = engine.trace.stats()
    expect({ begun, bufferedBytes }).toEqual({ begun: 50, bufferedBytes: 0 })
    expect(written).toBe(kept.length)
    expect(written + dropped).toBe(50)
    expect(written).toBeGreaterThan(0)
    expect(dropped).toBeGreaterThan(30)
  })

  it('is not taken for tensors that would not fit: their trace is dropped', async () => {
    const { engine } = tracedEngine({ maxBufferedBytes: 20_000, level: 'TENSORS' })
    const wide = {
      inputs: [{ name: 'x', type: 'float32', dims: [-1] }],
      outputs: [{ name: 'y', type: 'float32', dims: [1] }],
    } as const
    await engine.loadFunction('m', {
      ...wide,
      maxBatchSize: 1,
      run: ({ x }) => ({ y: Float32Array.of(x.data.length) }),
    })
    for (const length of [10, 100_000, 10])
      expect(await engine.infer('m', { x: new Float32Array(length) })).toMatchObject({
        y: { data: one(length) },
      })
    await engine.trace.flush()
    expect(engine.trace.stats()).toMatchObject({ begun: 3, written: 2, dropped: 1, bufferedBytes: 0 })
  })
})
