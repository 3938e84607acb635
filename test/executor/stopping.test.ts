// Alone: a run that cannot be stopped keeps memory of its process until it ends.
import { describe, expect, it } from 'vitest'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import { Tensor } from '../../src/index.ts'
import { matchesPlain } from '../support/against-plain.ts'
import { full } from '../support/full.ts'
import { load, ownEngine } from '../support/open.ts'
import { noise } from '../support/samples.ts'
import { until } from '../support/until.ts'
import * as networks from '../models/networks.ts'
import * as small from '../models/small.ts'

const executors = ['native', 'binding'] as const
const { version } = openNativeOrt()
const width = 1024
const row = (value: number) => new Float32Array(width).fill(value)
const rows = (count: number, value: number) =>
  new Tensor('float32', new Float32Array(count * width).fill(value), [count, width])

/** A tenth of a second for 64 rows, in a hundred operators. */
const slow = () => small.matmulLoop(width, 100)
const sessionOptions = { intraOpNumThreads: 1 } // on many cores it would be short

describe.each(executors)('with the executor %s', (executor) => {
  const missing = executor === 'native' && version === undefined
  const open = () => ownEngine({ cpuWorkers: 1, executor })

  it.skipIf(missing)('maxRunMs of a call rejects it, and the others of its batch are answered', async () => {
    const model = await load(open(), slow(), {
      maxBatchSize: 32,
      warmup: false,
      sessionOptions,
      dynamicBatching: { holdUntilQueued: 2 },
    })
    const hurried = model.infer({ x: rows(31, 1) }, { maxRunMs: 20 })
    const patient = model.infer({ x: row(2) }, { report: true })
    await expect(hurried).rejects.toMatchObject({
      code: 'ERR_TIMEOUT',
      message: expect.stringContaining('took more than its 20 ms (maxRunMs)'),
    })
    const { outputs, report } = await patient
    expect(outputs.y!.data).toEqual(row(2))
    // What cannot be stopped may have ended in time.
    if (executor === 'native') expect(report).toMatchObject({ attempts: 2, batchSize: 1 })
    expect(model.stats()).toMatchObject({ rejections: { timeout: 1, execution: 0, crashed: 0 } })
  })

  it.skipIf(missing)('maxRunMs of a model has it serve on after a run that took too long', async () => {
    const model = await load(open(), slow(), {
      maxBatchSize: 64,
      warmup: false,
      sessionOptions,
      maxRunMs: 900,
    })
    await expect(model.infer({ x: rows(64, 1) }, { maxRunMs: 10 })).rejects.toMatchObject({
      code: 'ERR_TIMEOUT',
    })
    expect((await model.infer({ x: row(3) }, { maxRunMs: 60_000 })).y!.data).toEqual(row(3))
  })

  it.skipIf(missing)('destroy() rejects what runs at once, and does not wait for all of it', async () => {
    const engine = open()
    const model = await load(engine, slow(), {
      maxBatchSize: 64,
      warmup: false,
      sessionOptions,
      dynamicBatching: false,
    })
    const outcomes = Promise.allSettled([1, 2].map((value) => model.infer({ x: rows(64, value) })))
    await until(() => model.stats().pendingRequestCount === 1)
    const destroyed = engine.destroy()
    const [running, waiting] = await outcomes
    for (const outcome of [running, waiting])
      expect(outcome).toMatchObject({ reason: { code: 'ERR_CLOSED' } })
    await destroyed
    expect(model.state).toBe('closed')
  })

  it.skipIf(missing)('close({ timeoutMs }) ends as destroy() does when the time is over', async () => {
    const engine = open()
    const model = await load(engine, slow(), { maxBatchSize: 64, warmup: false })
    const running = model.infer({ x: rows(64, 1) })
    const closed = engine.close({ timeoutMs: 5 })
    await expect(running).rejects.toMatchObject({ code: 'ERR_CLOSED' })
    await closed
  })

  it.skipIf(missing || (executor === 'binding' && !full))(
    'a run that does not stop is left to itself, and its worker is replaced',
    { timeout: 120_000 },
    async () => {
      const engine = open()
      const events: string[] = []
      engine.on(
        'worker',
        ({ type, reason }) => void events.push(reason === undefined ? type : `${type}: ${reason}`),
      )
      const other = await load(engine, networks.mlp())
      // One operator of some seconds. Until it has begun, the run can be stopped: then it is tried with more time.
      const model = await load(engine, small.squared('float64'), {
        maxBatchSize: 0,
        warmup: false,
        checkRows: false,
        sessionOptions,
      })
      const long = new Tensor('float64', new Float64Array(4500 * 4500), [4500, 4500])
      const square = async (value: number) =>
        (await model.infer({ x: new Tensor('float64', Float64Array.of(value), [1, 1]) })).y!.data
      for (let maxRunMs = 250; !events.includes('restored'); maxRunMs *= 2) {
        await expect(model.infer({ x: long }, { maxRunMs })).rejects.toMatchObject({ code: 'ERR_TIMEOUT' })
        expect(await square(2)).toEqual(Float64Array.of(4)) // by the same thread, or the one that has taken its place
      }
      expect(events).toEqual(['started', 'lost: it did not stop a run that was cancelled', 'restored'])
      await matchesPlain(other, [{ input: noise([2, 64]) }])
      expect(await square(3)).toEqual(Float64Array.of(9))
      await engine.close()
    },
  )
})

it.skipIf(version === undefined)('a load that is aborted ends the opening of its model', async () => {
  const engine = ownEngine({ cpuWorkers: 1, executor: 'native' })
  const controller = new AbortController()
  const loading = engine.load('large', { path: small.matmulSlow(width, 500) }, { signal: controller.signal })
  setImmediate(() => controller.abort('enough'))
  await expect(loading).rejects.toBe('enough')
  await matchesPlain(await load(engine, networks.mlp()), [{ input: noise([2, 64]) }])
})
