import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Tensor } from 'onnxruntime-common'
import { describe, expect, it, onTestFinished } from 'vitest'
import { InferenceEngine } from '../../src/engine.ts'
import type { RepositoryOptions } from '../../src/features/triton-repository/repository-options.ts'
import { identity } from '../models/small.ts'
import { until } from '../support/until.ts'
import { errorOf, temporaryFolder } from './temporary.ts'

const model = readFileSync(identity('float32', [2]))

function setUp() {
  const engine = new InferenceEngine()
  onTestFinished(() => engine.close())
  const load = (path: string, options: RepositoryOptions = {}) => engine.loadRepository(path, options)
  return { engine, load }
}

describe('loading a repository', () => {
  it('loads every model under the name of its folder', async () => {
    const { engine, load } = setUp()
    const config =
      'max_batch_size: 3 instance_group { kind: KIND_CPU } dynamic_batching { max_queue_delay_microseconds: 100 }'
    const models = await load(
      temporaryFolder({ 'b/1/model.onnx': model, 'a/2/model.onnx': model, 'a/config.pbtxt': config }),
    )
    expect(models.map(({ name, state, metadata }) => [name, state, metadata.maxBatchSize])).toEqual([
      ['a', 'ready', 3],
      ['b', 'ready', 4],
    ])
    const { y } = await engine.infer('a', { x: new Tensor('float32', Float32Array.of(1, 2, 3, 4), [2, 2]) })
    expect(y!.data).toEqual(Float32Array.of(1, 2, 3, 4))
  })
  it('takes a file: URL as well as a path', async () => {
    const { engine } = setUp()
    const path = temporaryFolder({ 'a/1/model.onnx': model })
    expect((await engine.loadRepository(pathToFileURL(path))).map(({ name }) => name)).toEqual(['a'])
    expect((await engine.load('a')).metadata.path).toBe(join(path, 'a/1/model.onnx'))
    expect(await errorOf(engine.loadRepository(new URL('https://example.org/models')))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'path',
    })
  })
  it('loads the models asked for, and tells of notes', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({
      'a/1/model.onnx': model,
      'a/config.pbtxt': 'runtime: "x"',
      'b/1/model.onnx': 'no model',
    })
    const notes: string[][] = []
    await load(path, { models: ['a'], onNote: (...note) => notes.push(note) })
    expect(engine.models().map(({ name }) => name)).toEqual(['a'])
    expect(notes).toEqual([['a', 'runtime (line 1): models are run by ONNX Runtime']])
  })
  it('is refused, with nothing loaded, when the function that is told of notes throws', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({ 'a/1/model.onnx': model, 'a/config.pbtxt': 'runtime: "x"' })
    const thrown = new Error('no notes, please')
    const error = await errorOf(
      load(path, {
        onNote: () => {
          throw thrown
        },
      }),
    )
    expect(error).toMatchObject({ code: 'ERR_INVALID_ARG', argument: 'options.onNote', cause: thrown })
    expect(engine.models()).toEqual([])
  })
  it('waits for all, then rejects with an error per model that failed, and leaves the others ready', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({
      'broken/1/model.onnx': 'no model',
      'good/1/model.onnx': model,
      'stateful/1/model.onnx': model,
      'stateful/config.pbtxt': 'sequence_batching { iterative_sequence: true }',
      'wide/1/model.onnx': model,
      'wide/config.pbtxt': 'max_batch_size: 2 dynamic_batching { preferred_batch_size: 4 }',
    })
    const error = await errorOf(load(path))
    expect(error).toMatchObject({ code: 'ERR_MODEL_LOAD', received: ['stateful', 'wide', 'broken'] })
    expect(error.message).toContain('3 of 4 models')
    expect(error.message).toContain('the other one is ready')
    expect((error.cause as AggregateError).errors).toMatchObject([
      { code: 'ERR_MODEL_CONFIG', model: 'stateful', argument: 'sequence_batching.iterative_sequence' },
      { code: 'ERR_MODEL_CONFIG', model: 'wide', argument: 'dynamic_batching.preferred_batch_size' },
      { code: 'ERR_MODEL_LOAD', model: 'broken' },
    ])
    expect((await engine.infer('good', { x: Float32Array.of(1, 2) }))['y']!.data).toEqual(
      Float32Array.of(1, 2),
    )
  })
  it('reports failures instead, if asked to, beside what is not for it and what has no file', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({
      'broken/1/model.onnx': 'no model',
      'good/1/model.onnx': model,
      'torch/1/model.pt': '',
      'trt/1/model.plan': '',
      'trt/config.pbtxt': 'platform: "tensorrt_plan"',
      'empty/config.pbtxt': '',
      'fileless/1/weights.bin': '',
    })
    const models = await load(path, { failures: 'report' })
    expect(models.map(({ name }) => name)).toEqual(['good'])
    expect(models.unsupported.map(({ name, error }) => [name, error.code])).toEqual([
      ['torch', 'ERR_MODEL_CONFIG'],
      ['trt', 'ERR_MODEL_CONFIG'],
    ])
    expect(models.missing.map(({ name, error }) => [name, error.code])).toEqual([
      ['empty', 'ERR_MODEL_NOT_FOUND'],
      ['fileless', 'ERR_MODEL_NOT_FOUND'],
    ])
    expect(models.failed).toMatchObject([{ name: 'broken', error: { code: 'ERR_MODEL_LOAD' } }])
    expect(engine.models()).toHaveLength(1)
  })
  it('rejects for a model that is asked for by name and is not for it, or has no file', async () => {
    const { load } = setUp()
    const path = temporaryFolder({
      'good/1/model.onnx': model,
      'torch/1/model.pt': '',
      'fileless/1/weights.bin': '',
    })
    expect(await errorOf(load(path, { models: ['good', 'torch', 'fileless'] }))).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      received: ['torch', 'fileless'],
    })
  })
  it('loads all versions that the policy allows, and again by name those that there are then', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({
      'a/1/model.onnx': model,
      'a/2/model.onnx': model,
      'a/3/model.onnx': model,
      'a/config.pbtxt': 'version_policy { specific { versions: [1, 3] } }',
    })
    const versions = () => engine.model('a').versions.map(({ version }) => version)
    const models = await load(path)
    expect(models).toEqual([engine.model('a')])
    expect([versions(), models[0]!.version]).toEqual([[1, 3], 3])
    expect((await engine.infer('a', { x: Float32Array.of(1, 2) }, { version: 1 }))['y']!.data).toEqual(
      Float32Array.of(1, 2),
    )
    writeFileSync(`${path}/a/config.pbtxt`, 'version_policy { all {} }')
    expect(await engine.load('a')).toBe(models[0])
    expect(versions()).toEqual([1, 2, 3])
  })
  it('unloads, when a model is loaded by its name, the versions that its folder does not ask for any more, and no others', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({
      'a/1/model.onnx': model,
      'a/2/model.onnx': model,
      'a/config.pbtxt': 'version_policy { all {} }',
    })
    const [loaded] = await load(path)
    const versions = () => loaded!.versions.map(({ version }) => version)
    await engine.load('a', { path: `${path}/a/1/model.onnx`, version: 9 })
    rmSync(`${path}/a/1`, { recursive: true })
    mkdirSync(`${path}/a/3`)
    writeFileSync(`${path}/a/3/model.onnx`, 'no model')
    expect(await errorOf(engine.load('a'))).toMatchObject({ code: 'ERR_MODEL_LOAD' })
    expect(versions()).toEqual([1, 2, 9])
    writeFileSync(`${path}/a/3/model.onnx`, model)
    const waiting = engine.infer('a', { x: Float32Array.of(1, 2) }, { version: 1 })
    await engine.load('a')
    await until(() => versions().length === 3)
    expect([versions(), (await waiting)['y']!.data]).toEqual([[2, 3, 9], Float32Array.of(1, 2)])
  })
  it('loads what is asked for, and later what a load by name asks for', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({
      'a/1/model.onnx': model,
      'b/1/model.onnx': model,
      'b/config.pbtxt': 'max_batch_size: 3',
      'c/1/model.pt': '',
    })
    expect(await errorOf(engine.load('b'))).toMatchObject({ code: 'ERR_MODEL_CONFIG', argument: 'config' })
    expect(await load(path, { mode: 'explicit' })).toHaveLength(0)
    expect((await engine.load('b')).metadata.maxBatchSize).toBe(3)
    expect(await errorOf(engine.load('c'))).toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      model: 'c',
      received: 'model.pt, of PyTorch',
    })
    expect(await errorOf(engine.load('d'))).toMatchObject({
      code: 'ERR_MODEL_NOT_FOUND',
      expected: "a model of the repositories ('a', 'b', 'c')",
    })
    await engine.unload('b')
    expect((await engine.load('b')).state).toBe('ready')
  })
  it('replaces what is loaded already, and has it serve on where that fails', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({ 'a/2/model.onnx': model })
    const [first] = await load(path)
    expect(await load(path)).toEqual([first])
    writeFileSync(`${path}/a/2/model.onnx`, 'no model')
    expect((await errorOf(load(path))).cause).toMatchObject({
      errors: [{ code: 'ERR_MODEL_LOAD', model: 'a' }],
    })
    expect([engine.models()[0]!.state, engine.model('a').version]).toEqual(['ready', 2])
  })
  it('rejects as closed on a closed engine', async () => {
    const { engine, load } = setUp()
    await engine.close()
    expect(await errorOf(load(temporaryFolder({ 'a/1/model.onnx': model })))).toMatchObject({
      code: 'ERR_CLOSED',
    })
  })
  it.each([
    ['', {}, 'path'],
    [7, {}, 'path'],
    ['.', null, 'options'],
    ['.', { model: 'a' }, 'options.model'],
    ['.', { models: 'a' }, 'options.models'],
    ['.', { models: [1] }, 'options.models'],
    ['.', { onNote: true }, 'options.onNote'],
    ['.', { mode: 'some' }, 'options.mode'],
    ['.', { failures: 'hide' }, 'options.failures'],
  ])('refuses the arguments %j, %j', async (path, options, argument) => {
    const { load } = setUp()
    expect(await errorOf(load(path as string, options as never))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument,
    })
  })
})
