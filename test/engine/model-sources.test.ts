import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import type { ModelConfig } from '../../src/index.ts'
import { rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { outcomeOf } from '../scheduling/outcome.ts'
import { ownEngine, sharedEngine } from '../support/open.ts'
import { feedsOf, runPlain } from '../support/plain.ts'
import { expectSame } from '../support/same.ts'
import { noise } from '../support/samples.ts'

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
    expect(await outcomeOf(model.infer({ x: Float32Array.of(-1003, 0, 0, 0) }))).toBe('ERR_INSTANCE_CRASHED')
    expect((await model.infer({ x: Float32Array.of(1, 2, 3, 4) }))['y']!.data).toEqual(
      Float32Array.of(1, 2, 3, 4),
    )
  })

  it.each<[string, () => Uint8Array, RegExp]>([
    [
      'that are no model',
      () => readFileSync(small.notOnnx()),
      /^Model 'm' cannot be loaded from its 21 bytes: .*[Pp]rotobuf parsing failed/,
    ],
    [
      'whose weights are elsewhere',
      () => readFileSync(small.withExternalData()),
      /from its \d+ bytes: [^]*External data does not come with bytes: give it as sessionOptions\.externalData, give the path of the model, or save it in one file$/,
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
