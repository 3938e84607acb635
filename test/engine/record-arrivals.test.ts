import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import sharp from 'sharp'
import { afterAll, describe, expect, it } from 'vitest'
import { loadArrivals } from '../../packages/perf/src/recordings/read-arrivals.ts'
import { InferenceEngine, Tensor } from '../../src/index.ts'
import { identity } from '../models/small.ts'
import { positionMlp } from '../../bench/models.ts'

const folder = mkdtempSync(join(tmpdir(), 'zerohop-recording-'))
afterAll(() => rmSync(folder, { recursive: true }))
const path = join(folder, 'requests.jsonl')

const rowsOf = (rows: number) => ({ x: new Tensor('float32', new Float32Array(rows * 4), [rows, 4]) })

/** What this process has open. */
function openFiles(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`)
    } catch {
      return [] // of this look itself
    }
  })
}

async function withEngine(use: (engine: InferenceEngine) => Promise<void>): Promise<void> {
  const engine = new InferenceEngine({ cpuWorkers: 1 })
  try {
    await use(engine)
  } finally {
    await engine.destroy()
  }
}

describe('a recording of an engine', () => {
  it('has when the encoded images of a request were decoded, which came before', async () => {
    const image = await sharp({
      create: { width: 2, height: 2, channels: 3, background: { r: 1, g: 2, b: 3 } },
    })
      .png()
      .toBuffer()
    await withEngine(async (engine) => {
      const model = await engine.load('images', {
        path: identity('float32', [3, 2, 2]),
        inputs: [{ name: 'x', image: {} }],
      })
      const recording = await engine.recordArrivals(path)
      await model.infer({ x: image })
      await model.infer({ x: new Float32Array(12) })
      await recording.stop()
    })
    const [encoded, pixels] = await loadArrivals(path)
    expect(encoded!.decodedUs).toBeGreaterThan(0)
    expect(encoded!.decodedUs).toBeLessThan(encoded!.latencyUs!)
    expect(pixels).not.toHaveProperty('decodedUs')
  })

  it('has every request, with its rows, its options and its latency, in the order in which they came', async () => {
    await withEngine(async (engine) => {
      const model = await engine.load('identity', {
        path: identity('float32'),
        maxBatchSize: 8,
        dynamicBatching: { priorityLevels: 3, defaultPriorityLevel: 2 },
      })
      await model.infer(rowsOf(1)) // before it
      const recording = await engine.recordArrivals(path)
      await Promise.all([
        model.infer(rowsOf(1)),
        model.infer(rowsOf(3), { priority: 1, timeoutMs: 5000, deadlineMs: 6000 }),
        model.infer(rowsOf(2)),
      ])
      await model.infer(rowsOf(8))
      await recording.stop()
      await model.infer(rowsOf(1)) // after it
      expect(recording).toMatchObject({ recorded: 4, lost: 0, failure: null })
    })
    const arrivals = await loadArrivals(path)
    expect(arrivals.map(({ rows }) => rows)).toEqual([1, 3, 2, 8])
    expect(arrivals[0]).toMatchObject({ atUs: 0, model: 'identity' })
    expect(arrivals[1]).toMatchObject({ priority: 1, timeoutMs: 5000, deadlineMs: 6000 })
    expect(arrivals.every(({ latencyUs = 0, dims }) => latencyUs > 0 && dims === undefined)).toBe(true)
  })

  it('has the runs: each with the first of its requests', async () => {
    await withEngine(async (engine) => {
      const model = await engine.load('identity', { path: identity('float32'), maxBatchSize: 4 })
      await using recording = await engine.recordArrivals(path)
      for (let round = 0; round < 5; round++)
        await Promise.all([1, 1, 2, 4].map((rows) => model.infer(rowsOf(rows))))
      expect(recording.failure).toBeNull()
    })
    const arrivals = await loadArrivals(path)
    const all = arrivals.flatMap(({ runs = [] }) => runs)
    expect(all.reduce((sum, { rows }) => sum + rows, 0)).toBe(5 * 8)
    expect(all.reduce((sum, { requests }) => sum + requests, 0)).toBe(20)
    expect(all.every(({ runUs, instance }) => runUs >= 0 && instance !== '')).toBe(true)
    for (const { atUs, latencyUs, runs: [run] = [] } of arrivals) {
      if (run === undefined) continue
      expect(run.takenAtUs).toBeGreaterThanOrEqual(atUs - 1)
      const { takenAtUs, gatherUs, handOverUs, runUs, wakeUs, scatterUs } = run
      // Each is rounded, and none is below 0: two threads look at their clocks.
      expect(takenAtUs - atUs + gatherUs + handOverUs + runUs + wakeUs + scatterUs).toBeLessThanOrEqual(
        latencyUs! + 500,
      )
    }
  })

  it('has how its model is configured, once, and which requests were made on an answer', async () => {
    await withEngine(async (engine) => {
      const model = await engine.load('identity', {
        path: identity('float32'),
        maxBatchSize: 4,
        dynamicBatching: { preferredBatchSize: [2], maxQueueDelayMs: 3 },
      })
      await using _ = await engine.recordArrivals(path)
      for (let round = 0; round < 3; round++)
        await Promise.all([model.infer(rowsOf(1)), model.infer(rowsOf(1))])
      await new Promise((resolve) => setTimeout(resolve, 0)) // what comes of itself follows from no answer
      await model.infer(rowsOf(1))
    })
    const [first, ...others] = await loadArrivals(path)
    expect(first!.config).toMatchObject({
      instances: 1,
      maxBatchSize: 4,
      preferredBatchSizes: [2],
      maxQueueDelayMs: 3,
      joinRequests: true,
    })
    expect(others.some(({ config }) => config !== undefined)).toBe(false)
    expect([first, ...others].map((arrival) => arrival!.afterAnswerUs !== undefined)).toEqual([
      false,
      false,
      true,
      true,
      true,
      true,
      false,
    ])
    expect(first!.runs).toMatchObject([{ rows: 2, reason: 'preferred' }])
  })

  it('has all runs of a request that is split, and of one that shares its answer', async () => {
    await withEngine(async (engine) => {
      const model = await engine.load('identity', {
        path: identity('float32'),
        maxBatchSize: 4,
        splitOversized: true,
      })
      const cached = await engine.load('cached', {
        path: identity('float32'),
        maxBatchSize: 4,
        responseCache: true,
      })
      await using _ = await engine.recordArrivals(path)
      await model.infer(rowsOf(10))
      await cached.infer(rowsOf(1))
      await cached.infer(rowsOf(1))
    })
    const [split, run, shared] = await loadArrivals(path)
    expect(split!.runs!.map(({ rows }) => rows)).toEqual([4, 4, 2])
    expect(run).toMatchObject({ runs: [{ rows: 1 }] })
    expect(run!.shared).toBeUndefined()
    expect(shared).toMatchObject({ shared: true })
    expect(shared!.runs).toBeUndefined()
  })

  it('has the dims that the model leaves open, and those of other models only where they are asked for', async () => {
    const { path: positions, input, width } = positionMlp(4, 4)
    await withEngine(async (engine) => {
      const model = await engine.load('positions', { path: positions, maxBatchSize: 4 })
      const other = await engine.load('identity', { path: identity('float32'), maxBatchSize: 4 })
      await using _ = await engine.recordArrivals(path, { models: ['positions'] })
      await other.infer(rowsOf(1))
      await model.infer({ [input]: new Tensor('float32', new Float32Array(2 * 5 * width), [2, 5, width]) })
    })
    expect(await loadArrivals(path)).toMatchObject([
      { model: 'positions', rows: 2, dims: { [input]: [2, 5, width] } },
    ])
  })

  it('has requests that are refused or fail, without a latency', async () => {
    await withEngine(async (engine) => {
      const model = await engine.load('identity', { path: identity('float32'), maxBatchSize: 4 })
      await using _ = await engine.recordArrivals(path)
      const controller = new AbortController()
      const withdrawn = model.infer(rowsOf(1), { signal: controller.signal })
      controller.abort()
      await expect(withdrawn).rejects.toMatchObject({ name: 'AbortError' })
      await model.infer(rowsOf(1))
    })
    const [first, second] = await loadArrivals(path)
    expect(first!.latencyUs).toBeUndefined()
    expect(first!.cancelledUs).toBeGreaterThanOrEqual(0)
    expect(second!.cancelledUs).toBeUndefined()
    expect(second!.latencyUs).toBeGreaterThan(0)
  })

  it('ends with the engine', async () => {
    await withEngine(async (engine) => {
      const model = await engine.load('identity', { path: identity('float32'), maxBatchSize: 4 })
      await engine.recordArrivals(path)
      await model.infer(rowsOf(2))
      await engine.close()
    })
    expect(await loadArrivals(path)).toMatchObject([{ rows: 2 }])
  })

  it('does not begin on an engine that is closed meanwhile, and leaves no file open', async () => {
    await withEngine(async (engine) => {
      const late = engine.recordArrivals(pathToFileURL(path))
      await Promise.all([engine.close(), expect(late).rejects.toMatchObject({ code: 'ERR_CLOSED' })])
    })
    await expect(loadArrivals(path)).rejects.toMatchObject({ code: 'ERR_INVALID_ARG' })
    if (process.platform === 'linux') expect(openFiles()).not.toContain(path)
  })

  it.skipIf(!existsSync('/dev/full'))(
    'fails no request when the disk is full, and says what it has lost',
    async () => {
      await withEngine(async (engine) => {
        const model = await engine.load('identity', { path: identity('float32'), maxBatchSize: 4 })
        const recording = await engine.recordArrivals('/dev/full')
        await Promise.all([1, 2, 3].map((rows) => model.infer(rowsOf(rows))))
        await recording.stop()
        expect(recording).toMatchObject({ recorded: 0, lost: 3, failure: { code: 'ENOSPC' } })
      })
    },
  )

  it('is the only one of its file until it has ended', async () => {
    await withEngine(async (engine) => {
      const recording = await engine.recordArrivals(path)
      await expect(engine.recordArrivals(path)).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG',
        argument: 'path',
      })
      await recording.stop()
      await engine.recordArrivals(path)
      // One that is begun while the engine closes is over as well.
      const late = engine.recordArrivals(join(folder, 'late.jsonl'))
      await Promise.all([engine.close(), expect(late).rejects.toMatchObject({ code: 'ERR_CLOSED' })])
    })
  })

  it('can be made of two at once', async () => {
    const second = join(folder, 'second.jsonl')
    await withEngine(async (engine) => {
      const model = await engine.load('identity', { path: identity('float32'), maxBatchSize: 4 })
      const recordings = [await engine.recordArrivals(path), await engine.recordArrivals(second)]
      await model.infer(rowsOf(2))
      await recordings[0]!.stop()
      await model.infer(rowsOf(3))
      await recordings[1]!.stop()
    })
    expect((await loadArrivals(path)).map(({ rows }) => rows)).toEqual([2])
    expect((await loadArrivals(second)).map(({ rows }) => rows)).toEqual([2, 3])
  })
})

describe('misuse', () => {
  it('of the file, the options or a closed engine is a typed error', async () => {
    await withEngine(async (engine) => {
      await expect(engine.recordArrivals('')).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG',
        argument: 'path',
      })
      await expect(engine.recordArrivals(path, { model: 'identity' } as never)).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG',
        argument: 'options.model',
      })
      await expect(engine.recordArrivals(path, { models: 'all' as never })).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG',
        argument: 'options.models',
      })
      await expect(engine.recordArrivals(join(folder, 'none', 'file'))).rejects.toMatchObject({
        code: 'ENOENT',
      })
      await engine.close()
      await expect(engine.recordArrivals(path)).rejects.toMatchObject({ code: 'ERR_CLOSED' })
    })
  })
})
