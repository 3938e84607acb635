import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Feeds, type Model, type OutputValue, Tensor } from '../../src/index.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import { Serving } from '../kserve/serving.ts'
import * as small from '../models/small.ts'
import { named, outputNamedTwice } from '../models/small.ts'
import { field, message, tensorType, value } from '../onnx-file/wire.ts'
import { served } from '../processes/served.ts'
import { outcomeOf } from '../scheduling/outcome.ts'
import { largestBatch } from '../support/against-plain.ts'
import { describeNative } from '../support/native.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'

const config = { path: small.identity('float32') }
const feeds = { x: Float32Array.of(1, 2, 3, 4) }

describe('engine.model', () => {
  it('is the model that load() gave, from the start of its load to its end', async () => {
    const engine = ownEngine()
    const loading = engine.load('m', config)
    const early = engine.model('m')
    expect(early.state).toBe('loading')
    expect(await loading).toBe(early)
    expect(engine.model('m')).toBe(early)
    await engine.unload('m')
    expect(await rejectionOf(async () => engine.model('m'))).toMatchObject({
      code: 'ERR_MODEL_NOT_FOUND',
      argument: 'name',
      received: 'm',
      expected: 'a loaded model (loaded: none)',
    })
  })
})

describe('model.unload', () => {
  it('finishes what was accepted, and takes nothing more', async () => {
    const model = await ownEngine().load('m', config)
    const accepted = Array.from({ length: 20 }, () => outcomeOf(model.infer(feeds)))
    const unloading = model.unload()
    expect(await outcomeOf(model.infer(feeds))).toBe('ERR_CLOSED')
    await unloading
    expect(new Set(await Promise.all(accepted))).toEqual(new Set(['answered']))
    expect(model.state).toBe('closed')
  })

  it('leaves it to be loaded again, in a new engine once its own is closed', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', config)
    await model.unload()
    await expect(model.infer(feeds)).rejects.toThrow("Model 'm' is closed. Load it again.")
    await engine.close()
    await expect(model.infer(feeds)).rejects.toThrow(
      "Model 'm' is closed. So is its engine: make a new InferenceEngine.",
    )
  })

  it('leaves another model alone that was loaded under the name since', async () => {
    const engine = ownEngine()
    const first = await engine.load('m', config)
    await first.unload()
    const second = await engine.load('m', config)
    await first.unload()
    await first[Symbol.asyncDispose]()
    expect([second.state, engine.model('m') === second]).toEqual(['ready', true])
    expect((await second.infer(feeds))['y']!.data).toEqual(feeds.x)
  })

  it('gives the staging memory back', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', config)
    await model.infer(feeds)
    expect(engine.stats().staging!.usedBytes).toBeGreaterThan(0)
    await model.unload()
    expect(engine.stats().staging!.usedBytes).toBe(0)
  })

  it('is done by `await using`', async () => {
    const engine = ownEngine()
    const scope = async () => {
      await using model = await engine.load('m', config)
      return (await model.infer(feeds))['y']!.dims
    }
    expect(await scope()).toEqual([1, 4])
    expect(engine.models()).toEqual([])
  })
})

const entry = (key: string, text: string) => field(14, message(field(1, key), field(2, text)))
const names = "{0: 'person', 1: 'bicycle'}"

/** y = x, with all that a file may say of itself. */
const telling = (...more: Uint8Array[]): Uint8Array =>
  message(
    field(1, 8), field(2, 'pytorch'), field(3, '2.4.0'), field(4, 'com.example'), field(5, 7), field(6, 'finds people'),
    field(7, message(
      field(1, message(field(1, 'x'), field(2, 'y'), field(4, 'Identity'))), field(2, 'main_graph'), field(10, 'of the trunk'),
      field(11, message(value('x', tensorType(1, ['N', 4])), field(3, 'pixels, from 0 to 1'))), field(12, value('y', tensorType(1, ['N', 4]))),
    )),
    field(8, field(2, 17)), entry('names', names), entry('stride', '32'), ...more,
  ) // prettier-ignore

const properties = {
  producer: { name: 'pytorch', version: '2.4.0' },
  domain: 'com.example',
  version: 7,
  description: 'finds people',
  graph: { name: 'main_graph', description: 'of the trunk' },
  custom: { names, stride: '32' },
}
const parameters = {
  'onnx.producer_name': { string_value: 'pytorch' }, 'onnx.producer_version': { string_value: '2.4.0' }, 'onnx.domain': { string_value: 'com.example' }, 'onnx.model_version': { string_value: '7' },
  'onnx.description': { string_value: 'finds people' }, 'onnx.graph_name': { string_value: 'main_graph' }, 'onnx.graph_description': { string_value: 'of the trunk' },
  names: { string_value: names }, stride: { string_value: '32' },
} // prettier-ignore

const engine = sharedEngine()

describe('what a model says of itself', () => {
  it.each(['auto', 'binding'] as const)(
    'is in its metadata, from a file and from bytes, with executor %s',
    async (executor) => {
      const own = ownEngine({ executor })
      const path = join(temporaryFolder({ 'telling.onnx': telling() }), 'telling.onnx')
      const [file, bytes] = await Promise.all([
        own.load('file', { path }),
        own.load('bytes', { bytes: telling() }),
      ])
      for (const { metadata } of [file, bytes]) {
        expect(metadata.properties).toEqual(properties)
        expect(metadata.inputs).toMatchObject([{ name: 'x', description: 'pixels, from 0 to 1' }])
        expect(metadata.outputs[0]).not.toHaveProperty('description')
      }
      writeFileSync(path, telling(entry('stride', '64')))
      expect((await own.load('file', { path })).metadata.properties!.custom['stride']).toBe('64')
      expect((await file.infer({ x: new Float32Array(4) }))['y']!.dims).toEqual([1, 4])
    },
  )

  it('is known of a model that says nothing, and of no function and no pipeline', async () => {
    const { metadata } = await engine.load('silent', { path: small.identity('float32') })
    expect(metadata.properties).toMatchObject({ domain: '', version: 0, description: '', custom: {} })
    const doubled = await engine.loadFunction('function', {
      inputs: [{ name: 'x', type: 'int32' }],
      outputs: [{ name: 'y', type: 'int32' }],
      run: ({ x }) => ({ y: x.data }),
    })
    const line = await engine.loadPipeline('line', {
      inputs: ['x'],
      steps: [{ model: 'silent', inputs: { x: 'x' }, outputs: { y: 'y' } }],
      outputs: ['y'],
    })
    expect([doubled.metadata.properties, line.metadata.properties]).toEqual([null, null])
  })

  it('has empty texts where they are too long to be kept', async () => {
    const { metadata } = await engine.load('long', {
      bytes: telling(entry('weights', 'w'.repeat(2 ** 20 + 1)), entry('__proto__', 'own')),
    })
    expect(Object.entries(metadata.properties!.custom)).toEqual([
      ['names', names],
      ['stride', '32'],
      ['weights', ''],
      ['__proto__', 'own'],
    ])
  })

  it('is told in another process as well', async () => {
    const { remote } = await served(false)
    expect((await (await remote.load('m', { bytes: telling() })).metadata()).properties).toEqual(properties)
  })
})

describe('the parameters of a configuration over KServe', () => {
  it("are what the model's file says", async () => {
    await engine.load('told', { bytes: telling() })
    const serving = await Serving.of(engine)
    expect((await serving.get('/v2/models/told/config')).json.parameters).toEqual(parameters)
  })

  it('are those that it was loaded with as well, which go before the others', async () => {
    await engine.load('own', {
      bytes: telling(),
      parameters: { stride: '8', metadata: "{'task': 'detect'}" },
    })
    const serving = await Serving.of(engine)
    expect((await serving.get('/v2/models/own/config')).json.parameters).toEqual({
      ...parameters,
      stride: { string_value: '8' },
      metadata: { string_value: "{'task': 'detect'}" },
    })
    await expect(
      engine.load('own', { bytes: telling(), parameters: { stride: 8 } as never }),
    ).rejects.toMatchObject({ code: 'ERR_MODEL_CONFIG', argument: 'parameters.stride' })
  })

  it('are those of config.pbtxt as they stand, of a model and of an ensemble', async () => {
    const text = `{0: 'person',\n 1: "bicycle's"}`
    const said = `parameters { key: "metadata" value { string_value: ${JSON.stringify(text)} } } parameters { key: "intra_op_thread_count" value { string_value: "1" } }`
    const folder = temporaryFolder({
      'detector/1/model.onnx': telling(), 'detector/config.pbtxt': said,
      'line/1/.keep': '', 'line/config.pbtxt': `platform: "ensemble" max_batch_size: 4 input { name: "a" data_type: TYPE_FP32 dims: [4] } output { name: "b" data_type: TYPE_FP32 dims: [4] } ${said}
        ensemble_scheduling { step { model_name: "detector" model_version: -1 input_map { key: "x" value: "a" } output_map { key: "y" value: "b" } } }`,
    }) // prettier-ignore
    const own = ownEngine()
    await own.loadRepository(folder)
    const serving = await Serving.of(own)
    const configured = { metadata: { string_value: text }, intra_op_thread_count: { string_value: '1' } }
    expect((await serving.get('/v2/models/detector/config')).json.parameters).toEqual({
      ...parameters,
      ...configured,
    })
    expect((await serving.get('/v2/models/line/config')).json.parameters).toEqual(configured)
  })
})

const row = (value: number, rows = 1) =>
  new Tensor('float32', new Float32Array(4 * rows).fill(value), [rows, 4])
/** As JSON.parse makes it: a property of its own, whatever the name. */
const feedsOf = (name: string, value: unknown) => Object.fromEntries([[name, value]]) as Feeds

/** Three names that something in between could take for one of its own. */
const triples: [input: string, negative: string, same: string][] = [
  ['__proto__', 'constructor', 'toString'],
  ['toString', '__proto__', 'hasOwnProperty'],
  ['constructor', 'valueOf', '__proto__'],
  ['0', '1', '-1'],
  ['type', 'dims', 'data'],
  ['x', 'then', 'length'],
  [' ', 'ü', '\u{1f600}'],
]

describe.each(triples)(
  "a model whose input is named '%s' and whose outputs are '%s' and '%s'",
  (input, negative, same) => {
    const open = (config = {}) => load(engine, named(input, negative, same), config)
    const infer = (model: Model, value: number, rows = 1) => model.infer(feedsOf(input, row(value, rows)))

    it('answers each caller under these names', async () => {
      const model = await open()
      for (const count of [1, 4]) {
        const answers = await Promise.all(Array.from({ length: count }, (_, at) => infer(model, at + 1)))
        for (const [at, outputs] of answers.entries()) {
          expect(Object.keys(outputs).sort()).toEqual([negative, same].sort())
          expect(Object.getPrototypeOf(outputs)).toBe(Object.prototype)
          expect(outputs[negative]!.data).toEqual(new Float32Array(4).fill(-at - 1))
          expect(outputs[same]!.data).toEqual(new Float32Array(4).fill(at + 1))
        }
      }
      expect(largestBatch(model)).toBe(4)
    })

    it('gives one of them that is asked for', async () => {
      const outputs = await (await open()).infer(feedsOf(input, row(3)), { outputs: [negative] })
      expect(Object.entries(outputs).map(([name, { data }]) => [name, [...(data as Float32Array)]])).toEqual([
        [negative, [-3, -3, -3, -3]],
      ])
    })

    it('joins the parts of a request', async () => {
      const outputs = await infer(await open({ maxBatchSize: 2, splitOversized: true }), 5, 7)
      expect(Object.keys(outputs).sort()).toEqual([negative, same].sort())
      expect(outputs[negative]!.dims).toEqual([7, 4])
    })

    it('looks for NaN under every name', async () => {
      const model = await open({ rejectNonFinite: 'outputs' })
      expect(await rejectionOf(() => infer(model, NaN))).toMatchObject({ code: 'ERR_EXECUTION' })
      await infer(model, 1)
    })

    it('is warmed with a sample of that name', async () => {
      const model = await open({ warmup: [{ feeds: feedsOf(input, row(1)) }] })
      await infer(model, 1)
    })

    it('misses the input when it is not given, whatever every object has of that name', async () => {
      const model = await open()
      for (const feeds of [{}, Object.create(feedsOf(input, row(1)))]) {
        expectRefusal(await rejectionOf(() => model.infer(feeds)), {
          argument: `input '${input}'`,
          expected: /given/,
        })
      }
    })
  },
)

it("an input named like every object's method may be left out where it is optional", async () => {
  const model = await load(engine, named('toString', 'y', 'z'), { optionalInputs: ['toString'] })
  const refusal = { argument: 'feeds', expected: /at least one input/ }
  expectRefusal(await rejectionOf(() => model.infer({})), refusal)
})

it('a model with two outputs of one name is refused', async () => {
  const refusal = {
    code: 'ERR_MODEL_LOAD',
    argument: "output 'y'",
    expected: /a name of its own/,
    received: '2 outputs of that name',
  }
  expectRefusal(await rejectionOf(() => load(engine, outputNamedTwice())), refusal)
})

describeNative('strings with NUL characters, with the native executor', () => {
  const engine = sharedEngine({ executor: 'native', cpuWorkers: 1 })
  const texts = [
    ['a\0b', '\0'],
    ['', 'ä\0'],
    ['\0\0\0', 'plain'],
  ]

  it('come back whole, batched and alone', async () => {
    const model = await load(engine, small.identity('string', [2]))
    const answers = await Promise.all(texts.map((x) => model.infer({ x })))
    expect(answers.map(({ y }) => y!.data)).toEqual(texts)
    expect(largestBatch(model)).toBe(3)
    expect((await model.infer({ x: new Tensor('string', texts.flat(), [3, 2]) })).y!.data).toEqual(
      texts.flat(),
    )
  })

  it('are what a model computes with', async () => {
    const model = await load(engine, small.stringConcat())
    const { y } = await model.infer({
      a: new Tensor('string', ['a\0', '\0'], [1, 2]),
      b: new Tensor('string', ['\0c', ''], [1, 2]),
    })
    expect(y!.data).toEqual(['a\0\0c', '\0'])
  })

  it('come back in sequences', async () => {
    const model = await load(engine, small.stringsAsSequence())
    const { s } = (await model.infer({ x: new Tensor('string', ['x\0y'], [1]) })) as Record<
      string,
      OutputValue
    >
    expect((s as Tensor[]).map(({ data }) => data)).toEqual([['x\0y'], ['b']])
  })
})

it('the binding would cut them, so they are refused there', async () => {
  const engine = sharedEngine({ executor: 'binding', cpuWorkers: 1 })
  const model = await engine.load('strings', { path: small.identity('string', [2]) })
  const refused = {
    code: 'ERR_INVALID_ARG',
    argument: "input 'x'[1]",
    expected: expect.stringContaining('without NUL'),
  }
  await expect(model.infer({ x: ['a', 'b\0c'] })).rejects.toMatchObject(refused)
  expect((await model.infer({ x: ['a', 'b'] })).y!.data).toEqual(['a', 'b'])
})

it('the binding would cut the ids of sequences, so they are refused there', async () => {
  const engine = sharedEngine({ executor: 'binding', cpuWorkers: 1 })
  const sequence = { controls: [{ input: 'x', kind: 'correlationId' }] } as const
  const model = await engine.load('ids', { path: small.identity('string', [1]), maxBatchSize: 4, sequence })
  const refused = {
    code: 'ERR_INVALID_ARG',
    argument: 'options.sequenceId',
    expected: expect.stringContaining('without NUL'),
  }
  await expect(model.infer({}, { sequenceId: 'a\0b', sequenceStart: true })).rejects.toMatchObject(refused)
  expect((await model.infer({}, { sequenceId: 'ab', sequenceStart: true })).y!.data).toEqual(['ab'])
})
