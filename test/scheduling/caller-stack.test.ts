import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { inTurn } from '../../src/features/image/decode-queue.ts'
import { imageConcurrency } from '../../src/features/image/exports.ts'
import { InferenceError, Tensor, type ModelOptions } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { loadGate, one, step } from '../pipelines/arithmetic.ts'
import { served } from '../processes/served.ts'
import { deferred } from '../support/deferred.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'

const engine = sharedEngine()
const row = () => ({ x: new Float32Array(512) })
/** A model whose requests wait for others that never come. */
const held = (config: ModelOptions = {}) =>
  load(engine, small.identity('float32', [512]), {
    maxBatchSize: 4,
    dynamicBatching: { holdUntilQueued: 100 },
    ...config,
  })

/** The error of a call, and who is to be found in its stack. */
async function someCaller(call: () => Promise<unknown>): Promise<InferenceError> {
  try {
    await call()
  } catch (error) {
    return error as InferenceError
  }
  throw new Error('it was answered')
}

async function expectCaller(call: () => Promise<unknown>): Promise<void> {
  const { code, stack, message } = await someCaller(call)
  expect(code).toBe('ERR_TIMEOUT')
  expect(stack).toMatch(/at (async )?someCaller /)
  expect(stack).toMatch(/at (async )?expectCaller /)
  expect(stack!.startsWith(`InferenceError: ${message}\n`)).toBe(true)
}

const soon = { timeoutMs: 1 }

describe('the stack of a request that has timed out shows who awaits it', () => {
  it('by a model, by an engine, and through functions that pass its promise on', async () => {
    const model = await held()
    await expectCaller(() => model.infer(row(), soon))
    await expectCaller(() => engine.infer(model.name, row(), soon))
    await expectCaller(async () => await model.infer(row(), soon))
    await expectCaller(() => model.infer(row(), soon).finally(() => {}))
    await expectCaller(() => Promise.all([model.infer(row(), soon), model.infer(row())]))
  })

  it('with rows over the batch size, of a lease, and with answers in order', async () => {
    const model = await held({ dynamicBatching: { holdUntilQueued: 100, preserveOrdering: true } })
    await expectCaller(() =>
      model.infer(
        { x: new Tensor('float32', new Float32Array(9 * 512), [9, 512]) },
        { ...soon, splitOversized: true },
      ),
    )
    await expectCaller(() => model.lease().infer(soon))
  })

  it('that shares a run with others', async () => {
    const model = await held({ responseCache: true })
    await Promise.all([
      expectCaller(() => model.infer(row(), soon)),
      expectCaller(() => model.infer(row(), soon)),
    ])
  })

  it('of a sequence, also behind one with which the sequence has ended: each its own', async () => {
    const model = await engine.load('sums', {
      path: fileURLToPath(new URL('../../examples/running-sum/model.onnx', import.meta.url)),
      maxBatchSize: 1,
      sequence: { state: [{ input: 'before', output: 'after' }], oldest: { maxCandidateSequences: 1 } },
    })
    onTestFinished(() => model.unload())
    const open = model.sequence()
    await open.infer({ x: Float32Array.of(1) })
    const late = model.sequence()
    async function secondCaller() {
      await late.infer({ x: Float32Array.of(1) })
    }
    const first = expectCaller(() => late.infer({ x: Float32Array.of(1) }, soon))
    const second = secondCaller().catch((error: Error) => error.stack)
    await first
    expect(await second).toMatch(/at (async )?secondCaller /)
    expect(await second).not.toMatch(/at (async )?someCaller /)
    await open.end()
  })

  it('that waits for its images', async () => {
    const model = await load(engine, small.identity('float32', [3, 30, 40]), {
      maxBatchSize: 8,
      inputs: [{ name: 'x', image: {} }],
    })
    const { promise, resolve } = deferred<void>()
    for (let place = 0; place < imageConcurrency(); place++) void inTurn(() => promise)
    onTestFinished(() => resolve())
    const x = readFileSync(new URL('../../examples/digits/images/0-0000.png', import.meta.url))
    await expectCaller(() => model.infer({ x }, soon))
  })

  it('of a pipeline: before it, and by its step', async () => {
    const own = ownEngine({ cpuWorkers: 1 })
    const gate = await loadGate(own, 'gate', { concurrency: 1, maxBatchSize: 1 })
    const line = await own.loadPipeline('line', {
      inputs: ['x'],
      steps: [step('gate', 'x', 'y')],
      outputs: ['y'],
      maxInFlight: 2,
    })
    const first = line.infer({ x: one(1) })
    await until(() => gate.calls === 1)
    await expectCaller(() => line.infer({ x: one(1) }, soon))
    const waiting = line.infer({ x: one(1) })
    await expectCaller(() => line.infer({ x: one(1) }, soon))
    gate.open()
    await Promise.all([first, waiting])
  })

  it('of another process', async () => {
    const { engine: serving, remote } = await served(false)
    await serving.load('m', {
      path: small.identity('float32', [512]),
      dynamicBatching: { holdUntilQueued: 100 },
    })
    await expectCaller(() => remote.model('m').infer(row(), soon))
    await expectCaller(() => remote.infer('m', row(), soon))
  })
})
