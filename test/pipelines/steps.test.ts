import { describe, expect, it } from 'vitest'
import { PipelineGraph } from '../../src/features/pipelines/pipeline-graph.ts'
import {
  type FunctionOptions,
  type InferenceEngine,
  type PipelineStep,
  type PipelineTensors,
  Tensor,
} from '../../src/index.ts'
import { resolvePipelineConfig } from '../../src/options/pipeline-config.ts'
import { identity } from '../models/identity.ts'
import { full } from '../support/full.ts'
import { ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { errorOf } from '../triton-repository/temporary.ts'
import { loadGate, loadNumber, loadSum, one, step } from './arithmetic.ts'

describe('a step that is left out as soon as its request comes', () => {
  it.each([
    ['by its when', { when: () => false }, { x: one(1), other: one(3) }],
    ['for want of an input', {}, { other: one(3) }],
  ])('%s has those after it begin once', async (_, left, feeds) => {
    const engine = ownEngine()
    await loadNumber(engine, 'twice', (x) => 2 * x)
    const gate = await loadGate(engine, 'gate')
    const difference = await engine.loadFunction('difference', {
      inputs: [
        { name: 'a', type: 'float32', dims: [1] },
        { name: 'b', type: 'float32', dims: [1], optional: true },
      ],
      outputs: [{ name: 'y', type: 'float32', dims: [1] }],
      run: ({ a, b }) => ({ y: Float32Array.from(a.data, (value, row) => value - (b?.data[row] ?? 0)) }),
    })
    const model = await engine.loadPipeline('once', {
      inputs: [{ name: 'x', optional: true }, 'other'],
      steps: [
        { ...step('twice', 'x', 'twice'), ...left },
        { model: 'difference', inputs: { a: 'other', b: 'twice' }, outputs: { y: 'y' } },
        step('gate', 'other', 'late'),
      ],
      outputs: ['y', 'late'],
    })
    const answer = model.infer(feeds)
    await expect.poll(() => difference.stats().inferenceStats.success.count).toBe(1)
    gate.open()
    expect(await answer).toMatchObject({ y: { data: one(3) }, late: { data: one(3) } })
    expect(difference.stats().inferenceStats.success.count).toBe(1)
    expect(model.stats().steps!.map(({ success, skippedCount }) => [success.count, skippedCount])).toEqual([
      [0, 1],
      [1, 0],
      [1, 0],
    ])
  })
})

describe('an output that a pipeline leaves out', () => {
  it.each(['constructor', 'toString', '__proto__'])(
    "is left out of the one that it is a step of, too, if its name is '%s'",
    async (name) => {
      const engine = ownEngine()
      await loadNumber(engine, 'twice', (x) => 2 * x)
      const named = {
        model: 'twice',
        inputs: { x: 'x' },
        outputs: { y: name },
        when: ({ x }: PipelineTensors) => x!.data[0] === 1,
      }
      await engine.loadPipeline('inner', {
        inputs: ['x'],
        steps: [named, step('twice', 'x', 'y')],
        outputs: [name, 'y'],
      })
      const outputs = Object.fromEntries([
        [name, 'left'],
        ['y', 'y'],
      ])
      const model = await engine.loadPipeline('outer', {
        inputs: ['x'],
        steps: [{ model: 'inner', inputs: { x: 'x' }, outputs }, step('twice', 'left', 'more')],
        outputs: ['left', 'y', 'more'],
      })
      expect(Object.keys(await model.infer({ x: one(1) }))).toEqual(['left', 'y', 'more'])
      expect(Object.keys(await model.infer({ x: one(2) }))).toEqual(['y'])
    },
  )
})

const length = 5000
const chain = Array.from({ length }, (_, index) => ({
  ...step('plus', `t${index}`, `t${index + 1}`),
  name: `s${index}`,
}))

describe('a pipeline of 5000 steps behind each other', () => {
  it.each([
    ['from the last to the first', chain.toReversed()],
    ...(full ? [['in their order', chain] as const] : []),
  ] as const)('is loaded and runs, with its steps %s', async (_, steps) => {
    const engine = ownEngine()
    await loadNumber(engine, 'plus', (x) => x + 1)
    const model = await engine.loadPipeline('long', { inputs: ['t0'], steps, outputs: [`t${length}`] })
    expect((await model.infer({ t0: one(1) }))[`t${length}`]!.data).toEqual(one(length + 1))
  })

  it('that is a circle is refused as one', async () => {
    const engine = ownEngine()
    await loadNumber(engine, 'plus', (x) => x + 1)
    const steps = [...chain, { ...step('plus', `t${length}`, 'back'), name: 'back' }].map((each) =>
      each.name === 's7' ? { ...each, needs: ['back'], when: () => true } : each,
    )
    const error = await errorOf(
      engine.loadPipeline('long', { inputs: ['t0'], steps, outputs: [`t${length}`] }),
    )
    expect(error).toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument: 'steps[7].inputs',
      received: expect.stringMatching(/^'a circle: 's7' waits for 'back' waits for 's4999' waits for/),
    })
  })
})

describe('a pipeline in which each step takes the outputs of the two before it', () => {
  it('is loaded and runs, in however many ways its last one depends on its first', async () => {
    const engine = ownEngine()
    await loadSum(engine, 'sum')
    const steps = Array.from({ length: 100 }, (_, at) => ({
      model: 'sum',
      name: `s${at}`,
      inputs: { a: `t${at}`, b: `t${at + 1}` },
      outputs: { sum: `t${at + 2}` },
    }))
    const model = await engine.loadPipeline('p', { inputs: ['t0', 't1'], steps, outputs: ['t20', 't101'] })
    expect((await model.infer({ t0: one(0), t1: one(1) }))['t20']!.data).toEqual(one(6765))
  })
})

describe('what goes from step to step', () => {
  it('is a Tensor to when and to callers', async () => {
    const engine = ownEngine()
    await loadNumber(engine, 'twice', (x) => 2 * x)
    const seen: PipelineTensors[] = []
    const when = (tensors: PipelineTensors) => seen.push(tensors) > 0
    const model = await engine.loadPipeline('p', {
      inputs: ['x'],
      steps: [step('twice', 'x', 'a'), { ...step('twice', 'a', 'y'), needs: ['x'], when }],
      outputs: ['a', 'y'],
    })
    const { a, y } = await model.infer({ x: one(3) })
    for (const tensor of [seen[0]!['a'], seen[0]!['x'], a, y]) expect(tensor).toBeInstanceOf(Tensor)
    expect([seen[0]!['x']!.data, seen[0]!['a']!.data, a.data, y.data]).toEqual([
      one(3),
      one(6),
      one(6),
      one(12),
    ])
    expect([seen[0]!['a']!.dims, y.dims]).toEqual([
      [1, 1],
      [1, 1],
    ])
  })

  it('is refused by the step whose model it does not fit, for its request alone', async () => {
    const engine = ownEngine()
    await engine.loadFunction('repeat', {
      inputs: [{ name: 'x', type: 'float32', dims: [1] }],
      outputs: [{ name: 'y', type: 'float32', dims: [-1] }],
      run: ({ x }, { rows }) => ({
        y: Array.from({ length: rows }, (_, row) => Float32Array.from({ length: x.data[row]! }, () => 7)),
      }),
    })
    await loadNumber(engine, 'twice', (x) => 2 * x)
    const model = await engine.loadPipeline('p', {
      inputs: ['x'],
      steps: [step('repeat', 'x', 'a'), step('twice', 'a', 'y')],
      outputs: ['y'],
    })
    const [first, second, third] = await Promise.allSettled([1, 2, 1].map((x) => model.infer({ x: one(x) })))
    for (const fit of [first, third])
      expect(fit).toMatchObject({ status: 'fulfilled', value: { y: { data: one(14) } } })
    expect(second).toMatchObject({
      status: 'rejected',
      reason: {
        code: 'ERR_INVALID_ARG',
        model: 'p',
        step: 'twice',
        argument: "input 'x'",
        expected: 'shape [rows, 1]',
        received: [1, 2],
      },
    })
  })

  it('is looked at for what is not finite where the model of the next step says so', async () => {
    const engine = ownEngine()
    await loadNumber(engine, 'inverse', (x) => 1 / x)
    await engine.load('finite', {
      path: identity('float32', [1]),
      maxBatchSize: 4,
      rejectNonFinite: 'inputs',
    })
    const model = await engine.loadPipeline('p', {
      inputs: ['x'],
      steps: [step('inverse', 'x', 'a'), step('finite', 'a', 'y')],
      outputs: ['y'],
    })
    expect((await model.infer({ x: one(2) })).y.data).toEqual(one(0.5))
    await expect(model.infer({ x: one(0) })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      step: 'finite',
      argument: "input 'x'[0]",
    })
  })

  it('keeps its bits as float16, also out of another pipeline', async () => {
    const engine = ownEngine()
    await engine.load('half', { path: identity('float16', [2]), maxBatchSize: 4 })
    await engine.loadPipeline('inner', { inputs: ['x'], steps: [step('half', 'x', 'y')], outputs: ['y'] })
    const model = await engine.loadPipeline('outer', {
      inputs: ['x'],
      steps: [step('inner', 'x', 'a'), step('half', 'a', 'b'), step('half', 'b', 'y')],
      outputs: ['y'],
    })
    const bits = Uint16Array.of(0x3c01, 0xfbff)
    const { y } = await model.infer({ x: bits })
    const { buffer, byteOffset } = y.data as Uint16Array
    expect(new Uint16Array(buffer, byteOffset, 2)).toEqual(bits)
  })

  it('is read of the caller only as long as it is there: what was taken away since fails the step', async () => {
    const engine = ownEngine()
    const gate = await loadGate(engine, 'gate')
    await loadSum(engine, 'sum')
    const model = await engine.loadPipeline('p', {
      inputs: ['x'],
      steps: [step('gate', 'x', 'a'), { model: 'sum', inputs: { a: 'a', b: 'x' }, outputs: { sum: 'y' } }],
      outputs: ['y'],
    })
    const taken = one(1)
    const answers = [model.infer({ x: taken }), model.infer({ x: one(2) })]
    await until(() => gate.calls > 0)
    structuredClone(taken, { transfer: [taken.buffer] })
    gate.open()
    const [first, second] = await Promise.allSettled(answers)
    expect(first).toMatchObject({
      status: 'rejected',
      reason: { code: 'ERR_INVALID_ARG', step: 'sum', argument: "input 'b'" },
    })
    expect(second).toMatchObject({ status: 'fulfilled', value: { y: { data: one(4) } } })
  })
})

/** A pipeline of one step, which is run if `when` says so. */
async function loadWith(when: NonNullable<PipelineStep['when']>) {
  const engine = ownEngine()
  const twice = await loadNumber(engine, 'twice', (x) => 2 * x)
  const model = await engine.loadPipeline('strange', {
    inputs: ['x'],
    steps: [{ ...step('twice', 'x', 'y'), when }],
    outputs: ['y'],
  })
  return { engine, twice, model }
}

describe('a when', () => {
  it.each([true, false])(
    'that ends its own request, and gives %s, has nothing more begin for it',
    async (wanted) => {
      const controller = new AbortController()
      const { twice, model } = await loadWith(() => {
        controller.abort(new Error('no more'))
        return wanted
      })
      await expect(model.infer({ x: one(1) }, { signal: controller.signal })).rejects.toThrow('no more')
      expect(twice.stats().inferenceStats.success.count + twice.capacity().waiting).toBe(0)
      expect(model.stats().steps).toMatchObject([
        { success: { count: 0 }, fail: { count: 0 }, cancelledCount: 0, skippedCount: 0 },
      ])
    },
  )

  it('that is asynchronous and rejects fails its request, and nothing else is told of it', async () => {
    const unhandled: unknown[] = []
    const note = (reason: unknown) => unhandled.push(reason)
    process.on('unhandledRejection', note)
    const { model } = await loadWith((async () => Promise.reject(new Error('later'))) as never)
    await expect(model.infer({ x: one(1) })).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      step: 'twice',
      message: expect.stringMatching(/its when returned a promise, where true or false was expected/),
    })
    await new Promise((resolve) => setImmediate(resolve))
    process.off('unhandledRejection', note)
    expect(unhandled).toEqual([])
  })

  it.each([
    [
      'whose message throws',
      Object.defineProperty(new Error('x'), 'message', {
        get: () => {
          throw new Error('again')
        },
      }),
    ],
    ['whose message is a symbol', Object.assign(new Error('x'), { message: Symbol('x') })],
    [
      'that is a proxy without a prototype to look at',
      new Proxy(
        {},
        {
          getPrototypeOf: () => {
            throw new Error('again')
          },
        },
      ),
    ],
  ])('that throws an error %s fails its request alone, with a typed error', async (_, thrown) => {
    const { model } = await loadWith(({ x }) => {
      if (x!.data[0] === 13) throw thrown
      return true
    })
    const [failed, ...others] = await Promise.all([
      errorOf(model.infer({ x: one(13) })),
      model.infer({ x: one(1) }),
      model.infer({ x: one(2) }),
    ])
    expect(failed).toMatchObject({
      code: 'ERR_EXECUTION',
      step: 'twice',
      argument: 'steps[0].when',
      message: expect.stringMatching(/its when has thrown: what cannot be read/),
    })
    expect(others).toMatchObject([{ y: { data: one(2) } }, { y: { data: one(4) } }])
  })
})

it('a pipeline keeps what it has found out of the outputs that were asked for last, and of no more than some', () => {
  const names = Array.from({ length: 8 }, (_, index) => `y${index}`)
  const graph = new PipelineGraph(
    'p',
    resolvePipelineConfig('p', {
      inputs: ['x'],
      steps: names.map((name) => step('m', 'x', name)),
      outputs: names,
    }),
  )
  const subsets = Array.from({ length: 200 }, (_, at) =>
    names.flatMap((__, index) => ((at + 1) & (1 << index) ? [index] : [])),
  )
  const plans = subsets.map((subset) => graph.planFor(subset))
  expect(plans.map((plan) => plan.steps.map(({ index }) => index))).toEqual(subsets)
  const isKept = (at: number) => graph.planFor(subsets[at]!.toReversed()) === plans[at]
  expect([isKept(199), isKept(140), isKept(0)]).toEqual([true, true, false])
})

/** A pipeline whose steps both go to one function, which fails rows of 13 beside the others of their batch. */
async function loadFailing(engine: InferenceEngine, options: Pick<FunctionOptions, 'dynamicBatching'> = {}) {
  await engine.loadFunction('odd', {
    inputs: [{ name: 'x', type: 'float32', dims: [1] }],
    outputs: [{ name: 'y', type: 'float32', dims: [1] }],
    run: ({ x }, { fail }) => {
      for (const [row, value] of x.data.entries()) if (value === 13) fail(row, new RangeError('thirteen'))
      return { y: Float32Array.from(x.data) }
    },
    ...options,
  })
  await loadSum(engine, 'sum')
  return engine.loadPipeline('pair', {
    inputs: ['first', 'second'],
    steps: [
      { ...step('odd', 'first', 'a'), name: 'a' },
      { ...step('odd', 'second', 'b'), name: 'b' },
      { model: 'sum', inputs: { a: 'a', b: 'b' }, outputs: { sum: 'y' } },
    ],
    outputs: ['y'],
  })
}

const feeds = (first: number, second: number) => ({ first: one(first), second: one(second) })

describe('a step that fails beside another one of its request, in one batch', () => {
  it('leaves those that come after it their answers, where they are given in order', async () => {
    const model = await loadFailing(ownEngine(), { dynamicBatching: { preserveOrdering: true } })
    for (const [first, second] of [
      [13, 1],
      [1, 13],
      [13, 13],
    ] as const)
      await expect(model.infer(feeds(first, second))).rejects.toMatchObject({ code: 'ERR_EXECUTION' })
    const answers = await Promise.allSettled(
      [feeds(1, 2), feeds(13, 5), feeds(3, 4), feeds(5, 13), feeds(6, 7)].map((each) => model.infer(each)),
    )
    expect(
      answers.map((answer) =>
        answer.status === 'fulfilled' ? answer.value['y']!.data[0] : answer.reason.step,
      ),
    ).toEqual([3, 'a', 7, 'b', 13])
  })

  it('is counted once, and so is the other one', async () => {
    const engine = ownEngine()
    const model = await loadFailing(engine)
    await expect(model.infer(feeds(13, 1))).rejects.toMatchObject({ code: 'ERR_EXECUTION', step: 'a' })
    const { success, fail } = engine.model('odd').stats().inferenceStats
    expect([success.count, fail.count]).toEqual([1, 1])
    expect(
      model
        .stats()
        .steps!.map(({ success, fail, cancelledCount }) => [success.count, fail.count, cancelledCount]),
    ).toEqual([
      [0, 1, 0],
      [0, 0, 1],
      [0, 0, 0],
    ])
  })
})
