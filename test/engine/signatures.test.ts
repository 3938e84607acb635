import { readFileSync } from 'node:fs'
import type { TypedTensor } from 'onnxruntime-common'
import { describe, expect, expectTypeOf, it } from 'vitest'
import {
  decodeImage,
  type ImageDataType,
  type ImageOptions,
  type ImageTarget,
} from '../../src/features/image/exports.ts'
import {
  type BatchReport,
  type InferenceEngine,
  type InferManyResult,
  type InferOptions,
  type Model,
  type ModelConfig,
  type ModelOptions,
  type ModelSignature,
  type Outputs,
  type OutputValue,
  type ReportedOutputs,
  Tensor,
} from '../../src/index.ts'
import { modelsCompiled } from '../../src/engine/engine-resources.ts'
import { entriesIn, ownFolder } from '../compiled-models/cached.ts'
import { initializedInput } from '../models/initialized-inputs.ts'
import { decided } from '../support/decided.ts'
import { describeNative } from '../support/native.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { errorOf, temporaryFolder } from '../triton-repository/temporary.ts'

/** As the generator writes them. */
interface Classifier extends ModelSignature {
  inputs: { pixels: Float32Array }
  outputs: { scores: Tensor; label: Tensor }
}

// Only types are looked at: nothing of this is ever called.
declare const engine: InferenceEngine
declare const model: Model
declare const classifier: Model<Classifier>
declare const pixels: Float32Array
declare const want: boolean

describe('what infer() resolves with, to the compiler', () => {
  it('is the outputs where no report is asked for', () => {
    expectTypeOf(() => model.infer({})).returns.resolves.toEqualTypeOf<Outputs>()
    expectTypeOf(() => model.infer({}, { timeoutMs: 5 })).returns.resolves.toEqualTypeOf<Outputs>()
    expectTypeOf(() => model.infer({}, { report: false })).returns.resolves.toEqualTypeOf<Outputs>()
    expectTypeOf(() => classifier.infer({ pixels })).returns.resolves.toEqualTypeOf<Classifier['outputs']>()
  })

  it('is outputs and report where one is asked for', () => {
    expectTypeOf(() => model.infer({}, { report: true })).returns.resolves.toEqualTypeOf<
      ReportedOutputs<Outputs>
    >()
    expectTypeOf(
      async () => (await classifier.infer({ pixels }, { report: true })).report,
    ).returns.resolves.toEqualTypeOf<BatchReport>()
  })

  it('is either where that is known only at run time', () => {
    expectTypeOf(() => model.infer({}, { report: want })).returns.resolves.toEqualTypeOf<
      Outputs | ReportedOutputs<Outputs>
    >()
    const perhaps: { report?: true } = {}
    expectTypeOf(() => model.infer({}, perhaps)).returns.resolves.toEqualTypeOf<
      Outputs | ReportedOutputs<Outputs>
    >()
    expectTypeOf(() => engine.infer('m', {}, { report: want })).returns.resolves.toEqualTypeOf<
      Outputs | ReportedOutputs<Outputs>
    >()
  })

  it('follows options in a variable', () => {
    const plain = { timeoutMs: 5 }
    const annotated: InferOptions = plain
    const perhaps: InferOptions | undefined = annotated
    expectTypeOf(() => model.infer({}, plain)).returns.resolves.toEqualTypeOf<Outputs>()
    expectTypeOf(() => model.infer({}, annotated)).returns.resolves.toEqualTypeOf<Outputs>()
    expectTypeOf(() => model.infer({}, perhaps)).returns.resolves.toEqualTypeOf<Outputs>()
    const widened = { report: true } // a boolean, to the compiler
    expectTypeOf(() => model.infer({}, widened)).returns.resolves.toEqualTypeOf<
      Outputs | ReportedOutputs<Outputs>
    >()
    const either = plain as InferOptions<string, boolean>
    expectTypeOf(() => model.infer({}, either)).returns.resolves.toEqualTypeOf<
      Outputs | ReportedOutputs<Outputs>
    >()
  })

  it('has only names that the model has', () => {
    // @ts-expect-error no such input
    void (() => classifier.infer({ image: pixels }))
    // @ts-expect-error no such output
    void (() => classifier.infer({ pixels }, { outputs: ['logits'] }))
    void (() => classifier.infer({ pixels }, { outputs: ['label'] }))
  })
})

describe('the outputs that a call names', () => {
  type Label = { label: Tensor }

  it('are what it resolves with, to the compiler', () => {
    expectTypeOf(() =>
      classifier.infer({ pixels }, { outputs: ['label'] }),
    ).returns.resolves.toEqualTypeOf<Label>()
    expectTypeOf(() =>
      classifier.infer({ pixels }, { outputs: ['label', 'scores'] }),
    ).returns.resolves.toEqualTypeOf<Classifier['outputs']>()
    expectTypeOf(() =>
      classifier.infer({ pixels }, { outputs: ['label'], report: true }),
    ).returns.resolves.toEqualTypeOf<ReportedOutputs<Label>>()
    expectTypeOf(() =>
      classifier.infer({ pixels }, { outputs: ['label'], report: want }),
    ).returns.resolves.toEqualTypeOf<Label | ReportedOutputs<Label>>()
    expectTypeOf(() => classifier.inferMany([{ pixels }], { outputs: ['label'] })).returns.toEqualTypeOf<
      AsyncGenerator<InferManyResult<Label>, void, undefined>
    >()
    expectTypeOf(() =>
      engine.model<Classifier>('c').infer({ pixels }, { outputs: ['label'] }),
    ).returns.resolves.toEqualTypeOf<Label>()
    expectTypeOf(() =>
      engine.infer<Classifier, 'label'>('c', { pixels }, { outputs: ['label'] }),
    ).returns.resolves.toEqualTypeOf<Label>()
  })

  it('are followed in a variable', () => {
    const options = { outputs: ['label'], timeoutMs: 5 } as const
    expectTypeOf(() => classifier.infer({ pixels }, options)).returns.resolves.toEqualTypeOf<Label>()
    const annotated: InferOptions<'label' | 'scores'> = {}
    expectTypeOf(() => classifier.infer({ pixels }, annotated)).returns.resolves.toEqualTypeOf<
      Classifier['outputs']
    >()
  })

  it('are known of a model without a signature, too, where they are named in the call', () => {
    expectTypeOf(() => model.infer({}, { outputs: ['label'] })).returns.resolves.toEqualTypeOf<Label>()
    expectTypeOf((names: string[]) =>
      model.infer({}, { outputs: names }),
    ).returns.resolves.toEqualTypeOf<Outputs>()
    expectTypeOf((names: string[]) =>
      engine.infer('c', {}, { outputs: names }),
    ).returns.resolves.toEqualTypeOf<Outputs>()
  })

  it('leave functions over any signature as they are', () => {
    const through = <M extends ModelSignature>(any: Model<M>, feeds: M['inputs']): Promise<M['outputs']> =>
      any.infer(feeds, { timeoutMs: 5 })
    expectTypeOf(() => through(classifier, { pixels })).returns.resolves.toEqualTypeOf<
      Classifier['outputs']
    >()
  })
})

describe('a model with a signature', () => {
  interface Structured extends ModelSignature {
    inputs: { pixels: Float32Array }
    outputs: { scores: Tensor; probabilities: OutputValue }
  }

  it('may be given to what takes any model', () => {
    expectTypeOf<Model<Classifier>>().toExtend<Model>()
    void ((): Model[] => [classifier, model])
  })

  it('is none of another signature, and no model without one is it', () => {
    expectTypeOf<Model>().not.toExtend<Model<Classifier>>()
    expectTypeOf<Model<Structured>>().not.toExtend<Model<Classifier>>()
    expectTypeOf<Model<Classifier>>().not.toExtend<
      Model<{ inputs: { image: Float32Array }; outputs: { scores: Tensor; label: Tensor } }>
    >()
  })

  it('is not taken for a model of tensors alone where it is none', () => {
    expectTypeOf<Model<Structured>>().not.toExtend<Model>()
    expectTypeOf<Model<Structured>>().toExtend<Model<ModelSignature>>()
  })
})

describe('a result of inferMany(), to the compiler', () => {
  it('has outputs where it has no error, and an error where it has no outputs', () => {
    void (async () => {
      for await (const result of classifier.inferMany([{ pixels }])) {
        if (result.error) expectTypeOf(result.error).toEqualTypeOf<Error>()
        else expectTypeOf(result.outputs).toEqualTypeOf<Classifier['outputs']>()
        if (result.outputs) expectTypeOf(result.outputs.label).toEqualTypeOf<Tensor>()
        else expectTypeOf(result.error.message).toEqualTypeOf<string>()
        if (result.error === undefined) expectTypeOf(result.outputs.scores).toEqualTypeOf<Tensor>()
      }
    })
  })

  it('is told apart when it is taken to pieces, too', () => {
    void (async () => {
      for await (const { outputs, error } of classifier.inferMany([{ pixels }])) {
        if (error) expectTypeOf(error.message).toEqualTypeOf<string>()
        else expectTypeOf(outputs.label).toEqualTypeOf<Tensor>()
      }
    })
  })
})

describe('a signature given to the engine', () => {
  it('types infer() by name', () => {
    expectTypeOf(() => engine.infer('c', {})).returns.resolves.toEqualTypeOf<Outputs>()
    expectTypeOf(() => engine.infer<Classifier>('c', { pixels })).returns.resolves.toEqualTypeOf<
      Classifier['outputs']
    >()
    expectTypeOf(() =>
      engine.infer<Classifier>('c', { pixels }, { report: true }),
    ).returns.resolves.toEqualTypeOf<ReportedOutputs<Classifier['outputs']>>()
    // @ts-expect-error no such input
    void (() => engine.infer<Classifier>('c', { image: pixels }))
    // @ts-expect-error no such output
    void (() => engine.infer<Classifier>('c', { pixels }, { outputs: ['logits'] }))
  })

  it('types the model that is loaded, or found', () => {
    expectTypeOf(() => engine.load<Classifier>('c', { path: 'c.onnx' })).returns.resolves.toEqualTypeOf<
      Model<Classifier>
    >()
    expectTypeOf(() => engine.model<Classifier>('c')).returns.toEqualTypeOf<Model<Classifier>>()
    expectTypeOf(() => engine.model('c')).returns.toEqualTypeOf<Model>()
  })
})

describe('the configuration of a model, to the compiler', () => {
  it('has exactly one of path and bytes', () => {
    const bytes = new Uint8Array(1)
    expectTypeOf<{ path: string; maxBatchSize: number }>().toExtend<ModelConfig>()
    expectTypeOf<{ path: URL }>().toExtend<ModelConfig>()
    expectTypeOf<{ bytes: Uint8Array }>().toExtend<ModelConfig>()
    // @ts-expect-error neither
    void (() => engine.load('m', {}))
    // @ts-expect-error both
    void (() => engine.load('m', { path: 'm.onnx', bytes }))
    // @ts-expect-error an unknown option
    void (() => engine.load('m', { path: 'm.onnx', maxBatchsize: 3 }))
  })

  it('may be made of options that know nothing of its file', () => {
    const from = (path: string, options: ModelOptions) => engine.load('m', { path, ...options })
    expectTypeOf(from).returns.resolves.toEqualTypeOf<Model>()
  })
})

describe('the inputs and outputs that a configuration lists, to the compiler', () => {
  const path = 'm.onnx'
  const loaded = () =>
    engine.load('m', {
      path,
      inputs: [
        { name: 'pixels', image: { channels: 'bgr' } },
        { name: 'size', type: 'int64' },
      ],
      outputs: [
        { name: 'scores', labels: ['a'] },
        { name: 'top', type: 'int32' },
      ],
    })
  type Loaded = Awaited<ReturnType<typeof loaded>>
  const size = BigInt64Array.of(1n)
  const bytes = new Uint8Array(1)

  it('are those of the model that is loaded: of the types that it names, an image as bytes', () => {
    void ((model: Loaded) => {
      void model.infer({ pixels: Buffer.alloc(1), size })
      void model.infer({ pixels, size }, { outputs: ['scores'] })
      // @ts-expect-error no such input, and one is missing
      void model.infer({ pixel: bytes, size })
      // @ts-expect-error one more than there are
      void model.infer({ pixels, size, other: bytes })
      // @ts-expect-error one is missing
      void model.infer({ pixels })
      // @ts-expect-error of another type
      void model.infer({ pixels, size: pixels })
      // @ts-expect-error no such output
      void model.infer({ pixels, size }, { outputs: ['score'] })
      expectTypeOf(() => model.infer({ pixels, size })).returns.resolves.toExtend<{
        scores: Tensor
        top: TypedTensor<'int32'>
      }>()
      expectTypeOf(
        async () => (await model.infer({ pixels, size })).top.data,
      ).returns.resolves.toEqualTypeOf<Int32Array>()
      // @ts-expect-error no such output
      void (async () => (await model.infer({ pixels, size })).score)
      expectTypeOf(model).toExtend<Model>()
    })
  })

  it('may say all that there is to say of them', () => {
    const full = () =>
      engine.load('m', {
        path,
        inputs: [
          {
            name: 'pixels',
            image: { mean: [1, 2, 3], fit: 'contain' },
            dims: [3, -1],
            reshape: [3, -1],
            shared: true,
          },
        ],
        outputs: [{ name: 'boxes', rows: { index: 0, of: 'pixels' }, dims: [-1, 4], labels: ['a'] }],
      })
    expectTypeOf(async () => (await full()).infer({ pixels: Buffer.alloc(1) })).returns.resolves.toExtend<{
      boxes: Tensor
    }>()
  })

  it('may be one of the two lists: the other names are known at run time', () => {
    void (async () => {
      const asked = await engine.load('m', { path, inputs: [{ name: 'pixels' }] })
      expectTypeOf(() => asked.infer({ pixels })).returns.resolves.toEqualTypeOf<Outputs>()
      // @ts-expect-error no such input
      void asked.infer({ image: pixels })
      const answered = await engine.load('m', { path, outputs: [{ name: 'scores', type: 'float32' }] })
      expectTypeOf(
        async () => (await answered.infer({ anything: pixels })).scores,
      ).returns.resolves.toEqualTypeOf<TypedTensor<'float32'>>()
    })
  })

  it('are optional where requests may leave them out', () => {
    void (async () => {
      const state = [{ input: 'h', output: 'hn' }]
      const model = await engine.load('m', {
        path,
        inputs: [{ name: 'x' }, { name: 'h' }, { name: 'mask' }],
        outputs: [{ name: 'y' }, { name: 'hn' }],
        optionalInputs: ['mask', 'bias'],
        sequence: { state: [{ input: 'h', output: 'hn' }], controls: [{ input: 'START', kind: 'start' }] },
      })
      expectTypeOf(
        async () => (await model.infer({ x: pixels }, { sequenceId: 1 })).y,
      ).returns.resolves.toEqualTypeOf<Tensor>()
      expectTypeOf(
        async () => (await model.infer({ x: pixels, h: pixels, mask: pixels, bias: pixels })).hn,
      ).returns.resolves.toEqualTypeOf<Tensor | undefined>()
      // @ts-expect-error no such input
      void model.infer({ x: pixels, other: pixels })
      // @ts-expect-error one is missing
      void model.infer({ mask: pixels })
      const unknown = await engine.load('m', { path, inputs: [{ name: 'x' }], sequence: { state } })
      void unknown.infer({ x: pixels, h: pixels })
    })
  })

  it('are as unknown as ever in a variable without literal types, and given by a signature', () => {
    const config: ModelConfig = { path, inputs: [{ name: 'pixels' }] }
    const inputs = [{ name: 'pixels' }]
    expectTypeOf(() => engine.load('m', config)).returns.resolves.toEqualTypeOf<Model>()
    expectTypeOf(() => engine.load('m', { path, inputs })).returns.resolves.toEqualTypeOf<Model>()
    expectTypeOf(() => engine.load('m', { path })).returns.resolves.toEqualTypeOf<Model>()
    expectTypeOf(() =>
      engine.load<Classifier>('m', { path, inputs: [{ name: 'pixels' }] }),
    ).returns.resolves.toEqualTypeOf<Model<Classifier>>()
    const kept = { path, inputs: [{ name: 'pixels' }] } as const satisfies ModelConfig
    // @ts-expect-error no such input
    void (async () => (await engine.load('m', kept)).infer({ image: pixels }))
  })

  it('have only options that there are', () => {
    // @ts-expect-error an unknown option of an input
    void (() => engine.load('m', { path, inputs: [{ name: 'pixels', imge: {} }] }))
    // @ts-expect-error an unknown option of an image
    void (() => engine.load('m', { path, inputs: [{ name: 'pixels', image: { chanels: 'bgr' } }] }))
    // @ts-expect-error an unknown option of an output
    void (() => engine.load('m', { path, outputs: [{ name: 'scores', label: ['a'] }] }))
    // @ts-expect-error an unknown option of the rows of an output
    void (() => engine.load('m', { path, outputs: [{ name: 'boxes', rows: { indx: 0 } }] }))
    // @ts-expect-error an unknown option of the model
    void (() => engine.load('m', { path, inputs: [{ name: 'pixels' }], maxBatchsize: 3 }))
    // @ts-expect-error an unknown option of a sequence
    void (() => engine.load('m', { path, inputs: [{ name: 'pixels' }], sequence: { states: [] } }))
    // @ts-expect-error no such type
    void (() => engine.load('m', { path, inputs: [{ name: 'pixels', type: 'float31' }] }))
  })
})

describe('what decodeImage() resolves with, to the compiler', () => {
  const size = { width: 8, height: 8 }

  it('is a tensor of the type that dtype says, float32 without one', () => {
    expectTypeOf(() => decodeImage('a.png', { width: 8, height: 8 })).returns.resolves.toEqualTypeOf<
      TypedTensor<'float32'>
    >()
    expectTypeOf(() => decodeImage('a.png', { ...size, dtype: 'uint8' })).returns.resolves.toEqualTypeOf<
      TypedTensor<'uint8'>
    >()
    const dtype = size.width > 4 ? 'float16' : 'int8'
    expectTypeOf(() => decodeImage('a.png', { ...size, dtype })).returns.resolves.toEqualTypeOf<
      TypedTensor<'float16' | 'int8'>
    >()
  })

  it('is a tensor of any of the types where the options were made elsewhere', () => {
    const options: ImageOptions = { ...size, dtype: 'int32' }
    expectTypeOf(() => decodeImage('a.png', options)).returns.resolves.toEqualTypeOf<
      TypedTensor<ImageDataType>
    >()
    expectTypeOf(() => decodeImage('a.png', options)).returns.resolves.toExtend<Tensor>()
  })

  it('is nothing where it writes to an array', () => {
    expectTypeOf((target: ImageTarget) =>
      decodeImage('a.png', size, target),
    ).returns.resolves.toEqualTypeOf<void>()
  })

  it('has only types and options that there are', () => {
    // @ts-expect-error no such type
    void (() => decodeImage('a.png', { ...size, dtype: 'float31' }))
    // @ts-expect-error no such option
    void (() => decodeImage('a.png', { width: 8, height: 8, scael: 1 }))
  })
})

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
    for (const way of ['first', 'second']) {
      const cached = ownEngine({ executor: 'native', cache: { dir }, verify: 'child' })
      const model = await cached.load('model', { path: whole(), optionalInputs: ['w'] })
      expect(cached.capabilities().cache.models['model'], way).toMatchObject({ compiled: true })
      expect([await answer(model, { x }), await answer(model, { x, ...tens })]).toEqual([
        [1, 2, 3, 4],
        [10, 20, 30, 40],
      ])
      await modelsCompiled(cached)
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
