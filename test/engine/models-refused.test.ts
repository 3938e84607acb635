import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { InferenceError, type ModelConfig, Tensor } from '../../src/index.ts'
import { rejectionOf } from '../abuse/refusal.ts'
import { graph } from '../models/builder.ts'
import * as small from '../models/small.ts'
import { outcomeOf } from '../scheduling/outcome.ts'
import { largestBatch, matchesPlain } from '../support/against-plain.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { feedsOf, runPlain } from '../support/plain.ts'
import { expectSame } from '../support/same.ts'
import { noise } from '../support/samples.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'

// What it carries itself, the native executor serves: test/engine/raw-types.test.ts.
const engine = sharedEngine({ executor: 'binding' })

// Whatever was refused: the process is there, and so are the engine and its worker.
afterEach(async () => {
  const other = await engine.load('other', { path: small.addSub('float32') })
  await matchesPlain(
    other,
    [1, 2].map((rows) => ({ a: noise([rows, 16]), b: noise([rows, 16]) })),
  )
  await engine.unload('other')
})

describe('a model is refused with ERR_MODEL_LOAD and a sentence', () => {
  it.each([
    [
      'its only output is a sequence',
      small.sequenceOnly,
      /^outputs of model 'refused': expected at least one tensor .*'s' \(a sequence.*\. Re-export/,
    ],
    [
      'its only output is a sequence of maps',
      small.mapOutput,
      /^outputs of model 'refused': .*'m' \(a sequence.* without ZipMap\.?$/,
    ],
    [
      'its only output is optional',
      small.optionalOutput,
      /^outputs of model 'refused': expected .*'o' \(a sequence, map, optional/,
    ],
    ['its only output is int4', small.int4OutputOnly, /^outputs of model 'refused': expected .*'q' \(int4\)/],
    [
      'an input is int4',
      small.int4Input,
      /^input 'q' of model 'refused': expected a tensor of a type .* received 'int4'\. Use executor: 'native', which carries it\. Else: Re-export/,
    ],
    [
      'an input is bfloat16',
      small.bfloat16Input,
      /^input 'b' of model 'refused': expected .* received 'bfloat16'/,
    ],
    [
      'everything is bfloat16',
      () => small.identity('bfloat16'),
      /^input 'x' of model 'refused': .* received 'bfloat16'/,
    ],
    [
      'an input is a sequence',
      small.sequenceInput,
      /^input 's' of model 'refused': expected .* received 'a sequence/,
    ],
    [
      'ONNX Runtime has no kernel for it',
      () => small.identity('int4'),
      /^Model 'refused' cannot be loaded .*Could not find an implementation/,
    ],
    ['an operator does not exist', small.unknownOperator, /cannot be loaded from .*NoSuchOperator/],
    [
      'the domain of an operator is unknown',
      small.unknownDomain,
      /cannot be loaded from .*com\.example\.absent:Identity/,
    ],
    [
      'its weights are missing',
      small.missingExternalData,
      /cannot be loaded from .*External data path does not exist/,
    ],
    ['the file is cut short', small.truncated, /: it is not a readable ONNX model: .* it is cut short/],
    ['the file is no model', small.notOnnx, /cannot be loaded from .*: it is not a readable ONNX model: ./],
    [
      'the file is empty',
      small.emptyFile,
      /: it is not a readable ONNX model: it has no graph, and no other byte\. ONNX Runtime says: ModelProto does not have a graph$/,
    ],
  ])('when %s', async (_, path, sentence) => {
    const error: unknown = await engine.load('refused', { path: path() }).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(InferenceError)
    expect(error).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      model: 'refused',
      message: expect.stringMatching(sentence),
    })
    expect(engine.models()).toEqual([])
  })

  it('in the same words when its bytes are cut short', async () => {
    const bytes = readFileSync(small.truncated())
    await expect(engine.load('refused', { bytes })).rejects.toMatchObject({
      code: 'ERR_MODEL_LOAD',
      argument: 'bytes',
      message: expect.stringMatching(
        /^Model 'refused' cannot be loaded from its \d+ bytes: it is not a readable ONNX model: .* it is cut short/,
      ),
      cause: expect.objectContaining({ message: expect.stringMatching(/protobuf parsing failed/i) }),
    })
  })

  it('when the system does not have the locale that its texts need', async () => {
    const texts = graph('texts')
      .input('x', 'string', ['N'])
      .output('y', 'string', ['N'])
      .node('StringNormalizer', ['x'], ['y'], { case_change_action: 'LOWER', locale: 'tlh_KL.UTF-8' })
    const error = await engine.load('refused', { bytes: texts.build() }).catch((reason: unknown) => reason)
    expect(error).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      argument: 'bytes',
      received: 'tlh_KL.UTF-8',
      message: expect.stringMatching(
        /its texts need the locale tlh_KL\.UTF-8, which this system does not have\. Install it/,
      ),
    })
    expect((error as Error).message).not.toContain('execution provider')
  })

  it.each([
    [
      'a pointer of Git LFS',
      'version https://git-lfs.github.com/spec/v1\noid sha256:0\n',
      /it is a pointer of Git LFS: fetch the model \(git lfs pull\)$/,
    ],
    ['a page of the web', '<!doctype html><title>Not found</title>', /it is a web page or similar/],
    [
      'an archive of PyTorch',
      'PK\x03\x04\0\0archive/data.pkl',
      /it is an archive, as of PyTorch.*torch\.onnx\.export/,
    ],
    ['a pickle', '\x80\x02\x8a\nl\xfc\x9cF\xf9', /it is a pickle/],
    ['a model of TensorFlow Lite', '\x1c\0\0\0TFL3', /it is a model of TensorFlow Lite/],
    ['safetensors', '\x40\0\0\0\0\0\0\0{"weight":{}}', /safetensors, and no graph/],
    ['compressed', '\x1f\x8b\x08', /compressed by gzip: unpack it$/],
  ])('when it is no ONNX model but %s, as a file or as bytes', async (_, text, sentence) => {
    const bytes = Buffer.from(text, 'latin1')
    const path = join(temporaryFolder({ 'm.onnx': bytes }), 'm.onnx')
    for (const [source, given] of [
      [{ path }, path],
      [{ bytes }, `its ${bytes.length} bytes`],
    ] as const) {
      const error = await engine.load('refused', source).catch((reason: unknown) => reason)
      expect(error).toMatchObject({
        code: 'ERR_MODEL_LOAD',
        argument: Object.keys(source)[0],
        message: expect.stringMatching(sentence),
      })
      expect((error as Error).message).toContain(`cannot be loaded from ${given}: it `)
    }
  })

  it('when it has two instances, as with one', async () => {
    for (const path of [small.int4Input(), small.unknownOperator()]) {
      const loading = engine.load('refused', { path, instanceGroup: [{ kind: 'cpu', count: 2 }] })
      await expect(loading).rejects.toMatchObject({ code: 'ERR_MODEL_LOAD' })
    }
  })

  it('and its name is free for a model that can be served', async () => {
    await expect(engine.load('refused', { path: small.sequenceOnly() })).rejects.toMatchObject({
      code: 'ERR_MODEL_LOAD',
    })
    const model = await engine.load('refused', { path: small.identity('float32') })
    await matchesPlain(model, [{ x: noise([1, 4]) }])
    await engine.unload('refused')
  })
})

describe('a model serves the outputs that can be carried', () => {
  const partly: [string, () => string, string, string][] = [
    ['a sequence', small.sequenceAndTensor, 's', 'a sequence, map, optional or sparse value'],
    ['int4', small.int4Output, 'q', 'int4'],
    ['bfloat16', small.bfloat16Output, 'b', 'bfloat16'],
  ]

  it.each(partly)('beside one that is %s', async (_, path, name, type) => {
    const model = await load(engine, path())
    expect(model.metadata.unservableOutputs).toEqual([{ name, type }])
    expect(model.metadata.outputs.map((output) => output.name)).toEqual(['y'])
    const answers = await Promise.all([1, 3, 2].map((rows) => model.infer({ x: tensor(rows) })))
    expect(answers.map(({ y, ...others }) => [y!.dims, [...(y!.data as Float32Array)], others])).toEqual(
      [1, 3, 2].map((rows) => [[rows, 4], ramp(rows), {}]),
    )
    expect(largestBatch(model)).toBe(6)
  })

  it.each(partly)('and says why when the one that is %s is asked for', async (_, path, name, type) => {
    const model = await load(engine, path())
    for (const outputs of [[name], ['y', name]]) {
      await expect(model.infer({ x: tensor(1) }, { outputs })).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG',
        argument: 'options.outputs',
        received: name,
        message: expect.stringContaining(`It is ${type}, which the executor in use cannot return`),
      })
    }
    expect((await model.infer({ x: tensor(1) }, { outputs: ['y'] }))['y']!.dims).toEqual([1, 4])
  })
})

const ramp = (rows: number): number[] => Array.from({ length: rows * 4 }, (_, index) => index)

function tensor(rows: number) {
  return new Tensor('float32', Float32Array.from(ramp(rows)), [rows, 4])
}

describe('model sources', () => {
  const engine = sharedEngine()
  const path = small.addSub('float32')
  const request = { a: noise([3, 16]), b: noise([3, 16]) }
  const preload = new URL('../process/fixtures/deadly.mjs', import.meta.url).href

  async function servesWell(config: ModelConfig): Promise<void> {
    const model = await engine.load('m', config)
    expectSame(await model.infer(feedsOf(request)), await runPlain(path, request))
    await model.unload()
  }

  describe('a model may be given', () => {
    const bytes = readFileSync(path)
    const alone = Uint8Array.from(bytes)
    const within = new Uint8Array(bytes.length + 20).fill(255)
    within.set(bytes, 7)
    const shared = new Uint8Array(new SharedArrayBuffer(bytes.length))
    shared.set(bytes)

    it.each<[string, ModelConfig]>([
      ['by its path', { path }],
      ['by a file: URL', { path: pathToFileURL(path) }],
      ['by a file: URL as text', { path: pathToFileURL(path).href }],
      ['by one in capitals', { path: pathToFileURL(path).href.replace('file', 'FILE') }],
      ['as a Buffer', { bytes }],
      ['as a Uint8Array', { bytes: alone }],
      ['as part of a larger buffer', { bytes: within.subarray(7, 7 + bytes.length) }],
      ['as an ArrayBuffer', { bytes: alone.buffer }],
      ['in shared memory', { bytes: shared }],
    ])('%s', async (_, config) => {
      await servesWell(config)
    })
  })

  it('a folder given as a model is called one, and the error says what to give', async () => {
    const error = await rejectionOf(() => engine.load('m', { path: dirname(path) }))
    expect((error as Error).message).toBe(
      `Model 'm' cannot be loaded from ${dirname(path)}: it is a directory. Give the path of an .onnx or .ort file`,
    )
  })

  describe('a model of bytes', () => {
    it('does not care what becomes of them', async () => {
      const bytes = Uint8Array.from(readFileSync(path))
      const loading = engine.load('m', { bytes })
      bytes.fill(0)
      const model = await loading
      expectSame(await model.infer(feedsOf(request)), await runPlain(path, request))
      expect(model.metadata.path).toBe('')
      await model.unload()
      structuredClone(bytes.buffer, { transfer: [bytes.buffer] })
      expect(await rejectionOf(() => engine.load('m', { bytes }))).toMatchObject({
        code: 'ERR_MODEL_CONFIG',
        argument: 'bytes',
      })
    })

    it('is copied once, however many instances it has', async () => {
      const own = ownEngine({ cpuWorkers: 2 })
      const bytes = readFileSync(path)
      const Shared = globalThis.SharedArrayBuffer
      const sizes: number[] = []
      globalThis.SharedArrayBuffer = class extends Shared {
        constructor(size: number) {
          super(size)
          sizes.push(size)
        }
      } as typeof Shared
      try {
        await own.load('m', { bytes, instanceGroup: [{ kind: 'cpu', count: 4 }] })
      } finally {
        globalThis.SharedArrayBuffer = Shared
      }
      expect(sizes.filter((size) => size === bytes.length)).toHaveLength(1)
      expectSame(await own.infer('m', feedsOf(request)), await runPlain(path, request))
    })

    it('is opened again when its worker dies', async () => {
      const own = ownEngine({
        cpuWorkers: 1,
        executor: 'binding',
        workers: { execArgv: ['--import', preload] },
      })
      const model = await own.load('m', { bytes: readFileSync(small.identity('float32')), warmup: false })
      expect(await outcomeOf(model.infer({ x: Float32Array.of(-1003, 0, 0, 0) }))).toBe(
        'ERR_INSTANCE_CRASHED',
      )
      expect((await model.infer({ x: Float32Array.of(1, 2, 3, 4) }))['y']!.data).toEqual(
        Float32Array.of(1, 2, 3, 4),
      )
    })

    it.each<[string, () => Uint8Array, RegExp]>([
      [
        'that are no model',
        () => readFileSync(small.notOnnx()),
        /^Model 'm' cannot be loaded from its 21 bytes: it is not a readable ONNX model: ./,
      ],
      [
        'whose weights are elsewhere',
        () => readFileSync(small.withExternalData()),
        /from its \d+ bytes: [^]*A model given as bytes has no external data: give it as sessionOptions\.externalData, give the path of the model, or save it in one file$/,
      ],
    ])('is refused: %s', async (_, bytes, message) => {
      const error = await rejectionOf(() => engine.load('m', { bytes: bytes() }))
      expect(error).toMatchObject({
        code: 'ERR_MODEL_LOAD',
        argument: 'bytes',
        model: 'm',
        message: expect.stringMatching(message),
      })
      expect(engine.models()).toEqual([])
    })

    it('may not be read by ONNX Runtime for longer than it is opened', async () => {
      const sessionOptions = { extra: { session: { use_ort_model_bytes_directly: '1' } } }
      const error = await rejectionOf(() => engine.load('m', { bytes: readFileSync(path), sessionOptions }))
      expect(error).toMatchObject({
        code: 'ERR_MODEL_CONFIG',
        argument: 'sessionOptions.extra.session.use_ort_model_bytes_directly',
      })
    })
  })
})
