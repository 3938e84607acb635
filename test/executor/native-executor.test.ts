import { describe, expect, it, vi } from 'vitest'
import { InferenceEngine, InferenceError, Tensor } from '../../src/index.ts'
import { NativeExecutor } from '../../src/run/executors/native/native-executor.ts'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import { matchesPlain } from '../support/against-plain.ts'
import { load, ownEngine } from '../support/open.ts'
import { ortForm } from '../support/ort-form.ts'
import { noise } from '../support/samples.ts'
import { until } from '../support/until.ts'
import * as networks from '../models/networks.ts'
import * as small from '../models/small.ts'

const { version, reason } = openNativeOrt()
const native = (options = {}) => ownEngine({ cpuWorkers: 2, executor: 'native', ...options })

describe.skipIf(version === undefined)(
  `the native executor${reason === undefined ? '' : ` (skipped: ${reason.split('\n', 1)[0]})`}`,
  () => {
    it('says that it is in use, and which ONNX Runtime it calls', async () => {
      const engine = native()
      expect(engine.capabilities().executor).toEqual({
        kind: null,
        reason: 'no model has been loaded',
        ortVersion: null,
      })
      await load(engine, small.identity('float32'))
      expect(engine.capabilities()).toMatchObject({
        onnxruntime: version,
        executor: { kind: 'native', reason: "requested by executor: 'native'", ortVersion: version },
      })
    })

    it('answers as ONNX Runtime does, in batches and one by one', async () => {
      const model = await load(native(), networks.mlp())
      await matchesPlain(
        model,
        [1, 3, 1, 8, 1].map((rows) => ({ input: noise([rows, 64]) })),
      )
    })

    it('opens one session for instances and engines that ask for the same, faster from the second on', async () => {
      const path = networks.mlp()
      const first = await load(native(), path, { instanceGroup: [{ kind: 'cpu', count: 2 }] })
      const second = await load(native(), path)
      await Promise.all([first, second].map((model) => matchesPlain(model, [{ input: noise([2, 64]) }])))
    })

    it('rejects all questions when the system starts no thread, and leaves nothing behind', async () => {
      const ort = openNativeOrt()
      const binding = {
        ...ort.binding!,
        RunLoop: class extends ort.binding!.RunLoop {
          override start(): boolean {
            throw new Error('Resource temporarily unavailable')
          }
        },
      }
      const listeners = process.listenerCount('exit')
      const executor = new NativeExecutor({ binding, version: '' }, { finished: () => {}, died: () => {} })
      await expect(executor.start()).rejects.toThrow('Resource temporarily unavailable')
      await expect(executor.open(1, small.identity('float32'), {})).rejects.toThrow()
      await executor.stop()
      expect(process.listenerCount('exit')).toBe(listeners)
    })

    it('finds out once what is to be known of a session, and warms it once', async () => {
      const runSample = vi.spyOn(NativeExecutor.prototype, 'runSample')
      const path = networks.mlp()
      const first = await load(native(), path, { sessionOptions: { logId: 'once' } })
      expect(runSample).toHaveBeenCalled()
      runSample.mockClear()
      const second = await load(native(), path, { sessionOptions: { logId: 'once' } })
      expect(runSample).not.toHaveBeenCalled()
      expect(second.metadata.joining).toEqual(first.metadata.joining)
      const warmup = [{ feeds: { input: new Float32Array(64) } }]
      await load(native(), path, { sessionOptions: { logId: 'once' }, warmup })
      expect(runSample).toHaveBeenCalled() // samples of the user's may show more
      runSample.mockRestore()
    })

    it('goes on when one of two models of the same file is unloaded', async () => {
      const engine = native()
      const [first, second] = [await load(engine, networks.mlp()), await load(engine, networks.mlp())]
      await first.unload()
      await matchesPlain(second, [{ input: noise([1, 64]) }])
    })

    it('starts no thread of Node for a small model', async () => {
      let threads = 0
      const count = () => void threads++
      process.on('worker', count)
      const model = await load(native({ cpuWorkers: 1 }), small.identity('float32'))
      process.off('worker', count)
      await matchesPlain(model, [{ x: noise([1, 4]) }])
      expect(threads).toBe(0)
    })

    it('stops a run that nobody wants any more, and serves the next request', async () => {
      const model = await load(native({ cpuWorkers: 1 }), small.matmulLoop(512, 1000), {
        checkRows: false,
        warmup: false,
      })
      const long = () => ({ x: new Tensor('float32', new Float32Array(64 * 512), [64, 512]) })
      const controller = new AbortController()
      const abandoned = model.infer(long(), { signal: controller.signal })
      await until(() => model.stats().pendingRequestCount === 0)
      controller.abort('enough')
      await expect(abandoned).rejects.toBe('enough')
      await model.infer({ x: new Float32Array(512) })
      // The run that was stopped is none that was executed.
      expect(model.stats()).toMatchObject({ executionCount: 1, rejections: { cancelled: 1, execution: 0 } })
    })

    it('finishes a run that somebody else still wants', async () => {
      const model = await load(native({ cpuWorkers: 1 }), small.matmulLoop(512, 1000), {
        maxBatchSize: 64,
        dynamicBatching: { holdUntilQueued: 2 },
      })
      const x = Float32Array.from({ length: 512 }, (_, index) => index)
      const controller = new AbortController()
      const [wanted, abandoned] = [model.infer({ x }), model.infer({ x }, { signal: controller.signal })]
      await until(() => model.stats().pendingRequestCount === 0)
      controller.abort('enough')
      await expect(abandoned).rejects.toBe('enough')
      expect([...(await wanted).y!.data].sort((a, b) => Number(a) - Number(b))).toEqual([...x])
      expect(model.stats().rerunCount).toBe(0)
    })

    it('runs what takes less than to hand it over on the thread of its caller, says so and counts it', async () => {
      const model = await load(
        native({ cpuWorkers: 1, inline: { maxUs: 10_000, loopShare: 1 } }),
        small.identity('float32'),
      )
      const reports = []
      for (let count = 0; count < 20; count++) {
        const x = Float32Array.of(count, 1, 2, 3)
        const { outputs, report } = await model.infer({ x }, { report: true })
        expect(outputs.y!.data).toEqual(x)
        reports.push(report.inline)
      }
      expect(reports).toContain(true)
      const { executionCount, inlineCount } = model.stats()
      expect([executionCount, inlineCount]).toEqual([20, reports.filter(Boolean).length])
      await matchesPlain(
        model,
        Array.from({ length: 50 }, (_, at) => ({ x: noise([1 + (at % 3), 4]) })),
      )
    })

    it.each([
      ['32 by default, and more in short runs', {}, 100],
      ['as many as they may have', { maxBatchSize: 32 }, 32],
      ['as many as they may have by default', { defaultMaxBatchSize: 32 }, 32],
      ['as many as a check by running has seen, where the graph proves nothing', null, 32],
    ])('joins rows: %s', async (_, config, expected) => {
      const engine = native({ cpuWorkers: 1, inline: { maxUs: 10_000, loopShare: 1 } })
      const path = small.identity('float32')
      const model = await load(engine, config === null ? await ortForm(path) : path, config ?? {})
      await model.joiningKnown()
      let most = 0
      for (let round = 0; round < 200 && most < 100; round++) {
        const rows = Array.from({ length: 100 }, (_, at) => Float32Array.of(at, round, 2, 3))
        const answers = await Promise.all(rows.map((x) => model.infer({ x }, { report: true })))
        answers.forEach(({ outputs, report }, at) => {
          expect(outputs.y!.data).toEqual(rows[at])
          expect(report.batchSize).toBeLessThanOrEqual(expected)
          most = Math.max(most, report.batchSize)
        })
      }
      expect(most).toBe(expected)
      expect(model.metadata.maxBatchSize).toBe(32)
    })

    it('leaves the event loop its turns, however fast full batches follow from answers', async () => {
      const model = await load(
        native({ cpuWorkers: 1, inline: { maxUs: 10_000, loopShare: 1 } }),
        small.identity('float32'),
        { maxBatchSize: 4 },
      )
      let open = true
      const callers = Array.from({ length: 4 }, async () => {
        while (open) await model.infer({ x: Float32Array.of(1, 2, 3, 4) })
      })
      for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setTimeout(resolve))
      open = false
      await Promise.all(callers)
      expect(model.stats().inlineCount).toBeGreaterThan(0)
    })

    it('runs nothing there that it was told not to', async () => {
      const model = await load(native({ cpuWorkers: 1, inline: false }), small.identity('float32'))
      for (let count = 0; count < 10; count++) await matchesPlain(model, [{ x: noise([1, 4]) }])
      expect(model.stats()).toMatchObject({ executionCount: 10, inlineCount: 0 })
    })

    it('leaves nothing behind of engines that were closed', async () => {
      const before = process.listenerCount('exit')
      for (let count = 0; count < 3; count++) {
        const engine = new InferenceEngine({ executor: 'native', cpuWorkers: 1 })
        await engine.load('m', { path: small.identity('float32') })
        await engine.close()
      }
      await until(() => process.listenerCount('exit') === before)
    })

    it('is refused with a kind of memory that it does not read', async () => {
      const engine = new InferenceEngine({ executor: 'native', staging: { kind: 'copied' } })
      const refusal = (await engine
        .load('m', { path: small.identity('float32') })
        .catch((error: unknown) => error)) as InferenceError
      expect(refusal).toMatchObject({
        code: 'ERR_NATIVE_LOAD',
        message: expect.stringContaining(
          "executor 'native' is not available: it cannot read staging.kind 'copied'",
        ),
      })
      await engine.close()
    })
  },
)

it.each([
  ['binding', "requested by executor: 'binding'"],
  ['auto', expect.any(String)],
] as const)('executor %s serves everywhere', async (executor, why) => {
  const engine = ownEngine({ executor, staging: { kind: 'copied' } })
  const model = await load(engine, small.identity('float32'))
  await matchesPlain(model, [{ x: noise([2, 4]) }])
  expect(engine.capabilities().executor).toMatchObject({ kind: 'binding', reason: why })
})
