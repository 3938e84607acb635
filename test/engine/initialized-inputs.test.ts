import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { Tensor, type Model, type ModelOptions } from '../../src/index.ts'
import { entriesIn, ownFolder } from '../compiled-models/cached.ts'
import { initializedInput } from '../models/initialized-inputs.ts'
import { decided } from '../support/decided.ts'
import { errorOf } from '../triton-repository/temporary.ts'
import { describeNative } from '../support/native.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'

const tens = { w: Float32Array.of(10, 20, 30, 40) }
const row = (value: number) => ({ x: new Tensor('float32', new Float32Array(4).fill(value), [1, 4]) })
const answer = async (model: Model, feeds: Record<string, Float32Array | Tensor>) => [
  ...((await model.infer(feeds))['y'] as Tensor).data,
]

describeNative('an initializer that is an input as well', () => {
  const engine = sharedEngine({ executor: 'native' })
  const whole = () => initializedInput({ batched: false })
  const x = new Float32Array(4)

  it('is no input of requests where the configuration does not name it', async () => {
    const model = await load(engine, whole())
    expect(model.metadata.inputs.map(({ name }) => name)).toEqual(['x'])
    expect(await answer(model, { x })).toEqual([1, 2, 3, 4])
    expect(await errorOf(model.infer({ x, ...tens }))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      received: 'w',
    })
  })

  it.each<[string, ModelOptions]>([
    ['optionalInputs', { optionalInputs: ['w'] }],
    [
      'inputs and optionalInputs',
      { inputs: [{ name: 'x' }, { name: 'w', type: 'float32', dims: [4] }], optionalInputs: ['w'] },
    ],
  ])('is overridden by the requests that give it, where %s name it', async (_, config) => {
    const model = await load(engine, whole(), config)
    expect(model.metadata.inputs.map(({ name, type, shape }) => [name, type, shape])).toEqual([
      ['x', 'float32', [4]],
      ['w', 'float32', [4]],
    ])
    expect([
      await answer(model, { x }),
      await answer(model, { x, ...tens }),
      await answer(model, { x }),
    ]).toEqual([
      [1, 2, 3, 4],
      [10, 20, 30, 40],
      [1, 2, 3, 4],
    ])
  })

  it('is to be given where inputs alone name it', async () => {
    const model = await load(engine, whole(), { inputs: [{ name: 'w' }, { name: 'x' }] })
    expect(await answer(model, { x, ...tens })).toEqual([10, 20, 30, 40])
    expect(await errorOf(model.infer({ x }))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: expect.stringContaining("'w'"),
    })
  })

  it('is overridden where a repository calls it optional', async () => {
    const config =
      'max_batch_size: 0\ninput [{ name: "x" data_type: TYPE_FP32 dims: [4] }, { name: "w" data_type: TYPE_FP32 dims: [4] optional: true }]'
    const [model] = await ownEngine({ executor: 'native' }).loadRepository(
      temporaryFolder({ 'm/1/model.onnx': readFileSync(whole()), 'm/config.pbtxt': config }),
    )
    expect([await answer(model as Model, { x }), await answer(model as Model, { x, ...tens })]).toEqual([
      [1, 2, 3, 4],
      [10, 20, 30, 40],
    ])
  })

  it('is shared by the rows of a batch: requests that give other values of it, or none, are of other runs', async () => {
    const model = await load(engine, initializedInput(), {
      optionalInputs: ['w'],
      dynamicBatching: { maxQueueDelayMs: 200, preferredBatchSize: [2] },
    })
    await decided(model)
    expect(model.metadata).toMatchObject({ maxBatchSize: 32, joining: { rows: 'independent' } })
    const before = model.stats().executionCount
    const answers = await Promise.all([
      answer(model, row(1)),
      answer(model, { ...row(2), ...tens }),
      answer(model, row(3)),
      answer(model, { ...row(4), ...tens }),
    ])
    expect(answers).toEqual([
      [2, 3, 4, 5],
      [12, 22, 32, 42],
      [4, 5, 6, 7],
      [14, 24, 34, 44],
    ])
    expect(model.stats().executionCount - before).toBe(2)
  })

  it('is overridden in the compiled form of a model as well', async () => {
    const dir = ownFolder()
    for (const compiled of [true, true]) {
      const cached = ownEngine({ executor: 'native', cache: { dir }, verify: 'child' })
      const model = await cached.load('model', { path: whole(), optionalInputs: ['w'] })
      expect(cached.capabilities().cache.models['model']).toMatchObject({ compiled })
      expect([await answer(model, { x }), await answer(model, { x, ...tens })]).toEqual([
        [1, 2, 3, 4],
        [10, 20, 30, 40],
      ])
      await cached.close()
    }
    expect(entriesIn(dir)).toHaveLength(1)
  })

  it.each(['optionalInputs', 'inputs'] as const)(
    'is refused in %s where nothing can override it, with the reason',
    async (option) => {
      const config: ModelOptions =
        option === 'inputs' ? { inputs: [{ name: 'x' }, { name: 'w' }] } : { optionalInputs: ['w'] }
      const binding = await errorOf(load(ownEngine({ executor: 'binding' }), whole(), config))
      expect(binding).toMatchObject({
        code: 'ERR_MODEL_CONFIG',
        message: expect.stringContaining(
          "onnxruntime-node's binding ignores what is given for it: use executor: 'native'",
        ),
      })
      const old = await errorOf(load(engine, initializedInput({ batched: false, irVersion: 3 }), config))
      expect(old).toMatchObject({
        code: 'ERR_MODEL_CONFIG',
        message: expect.stringContaining('of IR version 4 or newer; this one is of version 3'),
      })
    },
  )
})
