import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expect, it } from 'vitest'
import { Tensor } from '../../src/index.ts'
import { one } from '../pipelines/arithmetic.ts'
import { ownEngine, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { loadFunction } from './load-function.ts'

const waiting = {
  inputs: [{ name: 'ms', type: 'int32' }],
  outputs: [{ name: 'running', type: 'int32' }],
  maxBatchSize: 1,
} as const

describe('an asynchronous function', () => {
  it('is called with one batch at a time', async () => {
    const model = await loadFunction(ownEngine(), 'waiting.mjs', waiting)
    const answers = await Promise.all(Array.from({ length: 6 }, () => model.infer({ ms: Int32Array.of(5) })))
    expect(answers.map(({ running }) => running.data[0])).toEqual([1, 1, 1, 1, 1, 1])
  })

  it('is called with as many at the same time as concurrency says, and no more', async () => {
    const model = await loadFunction(ownEngine(), 'waiting.mjs', { ...waiting, concurrency: 8 })
    const answers = await Promise.all(
      Array.from({ length: 40 }, () => model.infer({ ms: Int32Array.of(50) })),
    )
    const running = answers.map((answer) => answer.running.data[0]!)
    expect(Math.max(...running)).toBe(8)
    const { inferenceCount, executionCount } = model.stats()
    expect([inferenceCount, executionCount]).toEqual([40, 40])
    expect(model.capacity()).toMatchObject({ instances: 1, waiting: 0, running: 0 })
  })

  it('has a short call overtake a long one', async () => {
    const model = await loadFunction(ownEngine(), 'waiting.mjs', { ...waiting, concurrency: 2 })
    const order: string[] = []
    const long = model.infer({ ms: Int32Array.of(400) }).then(() => order.push('long'))
    await until(() => model.capacity().running === 1)
    await model.infer({ ms: Int32Array.of(1) }).then(() => order.push('short'))
    await long
    expect(order).toEqual(['short', 'long'])
  })

  it('loses no other batch when one loops for ever and its thread is ended: they are run again', async () => {
    const model = await loadFunction(ownEngine(), 'waiting.mjs', { ...waiting, concurrency: 4 })
    const others = [30, 31, 32].map((ms) => model.infer({ ms: Int32Array.of(ms) }))
    const looping = model.infer({ ms: Int32Array.of(-1) }, { maxRunMs: 200 })
    await expect(looping).rejects.toMatchObject({ code: 'ERR_TIMEOUT' })
    expect((await Promise.all(others)).map(({ running }) => running.dims)).toEqual([[1], [1], [1]])
    expect(model.stats()).toMatchObject({
      inferenceStats: { success: { count: 3 }, fail: { count: 1 } },
      rejections: { crashed: 0 },
    })
  })
})

describe('context.signal', () => {
  it('fires when the last caller of a batch has gone', async () => {
    const model = await loadFunction(ownEngine(), 'until-unwanted.mjs', {
      inputs: [{ name: 'ask', type: 'int32' }],
      outputs: [{ name: 'unwanted', type: 'int32' }],
    })
    const controllers = [new AbortController(), new AbortController()]
    const answers = controllers.map(({ signal }) => model.infer({ ask: Int32Array.of(0) }, { signal }))
    const rejections = Promise.allSettled(answers)
    await until(() => model.capacity().running === 1)
    for (const controller of controllers) controller.abort(new Error('gone'))
    expect(await rejections).toMatchObject([{ reason: { message: 'gone' } }, { reason: { message: 'gone' } }])
    expect((await model.infer({ ask: Int32Array.of(1) })).unwanted.data).toEqual(Int32Array.of(1))
  })
})

it('a function of the application runs in the context of none of its callers, who have their own afterwards', async () => {
  const storage = new AsyncLocalStorage<string>()
  const engine = ownEngine({ cpuWorkers: 1 })
  const seen: (string | undefined)[] = []
  const declared = {
    inputs: [{ name: 'x', type: 'float32', dims: [1] }],
    outputs: [{ name: 'y', type: 'float32', dims: [1] }],
  } as const
  const model = await storage.run(
    'who loads',
    () =>
    engine.loadFunction('echo', {
      ...declared, maxBatchSize: 4,
      run: async ({ x }) => {
        seen.push(storage.getStore())
        await Promise.resolve()
        seen.push(storage.getStore())
        return { y: Float32Array.from(x.data) }
      },
    }), // prettier-ignore
  )
  const afterwards = ['a', 'b', 'c'].map((name) =>
    storage.run(name, async () => (await model.infer({ x: one(1) }), storage.getStore())),
  )
  expect(await Promise.all(afterwards)).toEqual(['a', 'b', 'c'])
  expect(new Set(seen)).toEqual(new Set([undefined]))
  expect(model.stats().executionCount).toBe(1)
})

const declared = { inputs: [{ name: 'x', type: 'int32' }], outputs: [{ name: 'y', type: 'int32' }] } as const
const bare = Object.create(null) as object

describe('what a function throws', () => {
  it.each([
    ['an object without a prototype', () => bare, 'an instance of Object'],
    ['a symbol', () => Symbol('why'), 'Symbol(why)'],
    ['undefined', () => undefined, 'undefined'],
    ['text', () => 'no such word', 'no such word'],
    ['a reason of an abort', () => AbortSignal.abort().reason as unknown, 'This operation was aborted'],
    ['an error without a message', () => new RangeError(''), 'RangeError'],
    ['an error whose message throws', () => Object.defineProperty(new Error('x'), 'message', { get: () => { throw new Error('no') } }), 'an instance of Error'], // prettier-ignore
  ])('rejects its callers, whatever it is: %s', async (_, thrown, message) => {
    const run = () => { throw thrown() } // prettier-ignore
    const engine = ownEngine()
    const here = await engine.loadFunction('here', { run, ...declared })
    await expect(here.infer({ x: Int32Array.of(1) })).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      message: expect.stringContaining(message),
    })
    const refusing = await engine.loadFunction('refusing', {
      run: (_, { fail }) => ({ y: [fail(0, thrown())] }),
      ...declared,
    })
    await expect(refusing.infer({ x: Int32Array.of(1) })).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      message: expect.stringContaining(message),
    })
  })

  it('is told with its file and line where it is an error of the language', async () => {
    const model = await loadFunction(ownEngine(), 'mistaken.mjs', declared)
    await expect(model.infer({ x: Int32Array.of(1) })).rejects.toMatchObject({
      message: expect.stringMatching(/\(reading 'length'\) \(mistaken\.mjs:4\)\.$/),
    })
    await expect(model.infer({ x: Int32Array.of(2) })).rejects.toMatchObject({
      message: expect.stringMatching(/of a batch that has 1 \(mistaken\.mjs:5\)\.$/),
    })
    await expect(model.infer({ x: Int32Array.of(3) })).rejects.toMatchObject({
      message: expect.stringMatching(/: the third\.$/),
    })
  })
})

describe('advice', () => {
  const engine = sharedEngine()
  const declared = {
    inputs: [{ name: 'x', type: 'float32', dims: [2] }],
    outputs: [{ name: 'y', type: 'float32' }],
  } as const
  const row = Float32Array.of(1, 2)

  describe('an error says what to do', () => {
    it.each([
      [() => new Float32Array(1), 'expected an object of outputs by name, received Float32Array(1)'],
      [() => [1], 'expected an object of outputs by name, received [1]'],
      [() => ({ z: [1], scores: [1] }), "output 'y': expected to be given, received 'z', 'scores'"],
      [() => ({}), "output 'y': expected to be given, received no output"],
    ])('when a function gives something else than its outputs (%#)', async (run, message) => {
      const model = await engine.loadFunction('giver', { run: run as never, ...declared })
      await expect(model.infer({ x: row })).rejects.toMatchObject({
        code: 'ERR_EXECUTION',
        message: `The request failed in model 'giver': ${message}.`,
      })
    })

    it('when several rows are given without dims, and as it says they are taken', async () => {
      const texts = await engine.loadFunction('texts', {
        run: ({ text }) => ({ n: text.data.map(({ length }) => length) }),
        inputs: [{ name: 'text', type: 'string' }],
        outputs: [{ name: 'n', type: 'int32' }],
      })
      const message =
        "input 'text' of model 'texts': expected 1 string for one row of shape [rows], received 2 (number). Several rows take a Tensor: new Tensor('string', data, [2])"
      await expect(texts.infer({ text: ['a', 'bc'] })).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG',
        message,
      })
      expect((await texts.infer({ text: new Tensor('string', ['a', 'bc'], [2]) })).n.data).toEqual(
        Int32Array.of(1, 2),
      )
      const pairs = await engine.loadFunction('pairs', {
        run: ({ x }) => ({ y: Array.from(x, ([first]) => first!) }),
        ...declared,
      })
      await expect(pairs.infer({ x: new Float32Array(6) })).rejects.toMatchObject({
        message: expect.stringMatching(
          /received 6 \(number\)\. Several rows take a Tensor: new Tensor\('float32', data, \[3, 2\]\)$/,
        ),
      })
      await expect(pairs.infer({ x: new Float32Array(3) })).rejects.toMatchObject({
        message: expect.stringMatching(/received 3 \(number\)$/),
      })
    })

    it('when an encoded image is given for pixels', async () => {
      const pixels = await engine.loadFunction('pixels', {
        run: () => ({ y: [1] }),
        inputs: [{ name: 'x', type: 'float32', dims: [3, 2, 2] }],
        outputs: declared.outputs,
      })
      await expect(pixels.infer({ x: Buffer.alloc(12) as never })).rejects.toMatchObject({
        message: expect.stringContaining(
          "received Buffer(12). An encoded image takes `image` for this input in the model's configuration",
        ),
      })
    })

    it.skipIf(process.features.typescript)(
      'when a module is in TypeScript and Node does not read that',
      async () => {
        const message = expect.stringMatching(
          /Unknown file extension "\.ts" for .*typed\.ts\. Node 22\.18 and newer read TypeScript, .*; otherwise give the compiled module$/,
        )
        await expect(loadFunction(engine, 'typed.ts', declared)).rejects.toMatchObject({
          code: 'ERR_MODEL_LOAD',
          argument: 'module',
          message,
        })
      },
    )

    it.each([
      [{}, 'module', 'the path or file: URL of a module, or run: a function'],
      [{ run: () => ({}), outputs: [] }, 'outputs', 'at least one output'],
      [{ run: () => ({}), inputs: [{ name: '', type: 'float32' }] }, 'inputs[0].name', 'a name'],
    ])('when a declaration is not whole (%#)', async (config, argument, expected) => {
      await expect(engine.loadFunction('half', { ...declared, ...config } as never)).rejects.toMatchObject({
        code: 'ERR_MODEL_CONFIG',
        argument,
        expected,
      })
    })
  })
})
