import { readFileSync, writeFileSync } from 'node:fs'
import { Tensor } from 'onnxruntime-common'
import { describe, expect, it, onTestFinished } from 'vitest'
import { InferenceEngine } from '../../src/engine.ts'
import { loadRepository, type RepositoryOptions } from '../../src/triton-repository/load-repository.ts'
import { identity } from '../models/small.ts'
import { errorOf, temporaryFolder } from './temporary.ts'

const model = readFileSync(identity('float32', [2]))

function setUp() {
  const engine = new InferenceEngine()
  onTestFinished(() => engine.close())
  const load = (path: string, options: RepositoryOptions = {}) =>
    loadRepository(path, options, (name, config) => engine.load(name, config))
  return { engine, load }
}

describe('loading a repository', () => {
  it('loads every model under the name of its folder', async () => {
    const { engine, load } = setUp()
    const config = 'max_batch_size: 3 instance_group { kind: KIND_CPU } dynamic_batching { max_queue_delay_microseconds: 100 }'
    const models = await load(temporaryFolder({ 'b/1/model.onnx': model, 'a/2/model.onnx': model, 'a/config.pbtxt': config }))
    expect(models.map(({ name, state, metadata }) => [name, state, metadata.maxBatchSize])).toEqual([['a', 'ready', 3], ['b', 'ready', 32]])
    const { y } = await engine.infer('a', { x: new Tensor('float32', Float32Array.of(1, 2, 3, 4), [2, 2]) })
    expect(y!.data).toEqual(Float32Array.of(1, 2, 3, 4))
  })
  it('loads the models asked for, and tells of notes', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({ 'a/1/model.onnx': model, 'a/config.pbtxt': 'runtime: "x"', 'b/1/model.onnx': 'no model' })
    const notes: string[][] = []
    await load(path, { models: ['a'], onNote: (...note) => notes.push(note) })
    expect(engine.models().map(({ name }) => name)).toEqual(['a'])
    expect(notes).toEqual([['a', 'runtime (line 1): models are run by onnxruntime-node']])
  })
  it('is refused, with nothing loaded, when the function that is told of notes throws', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({ 'a/1/model.onnx': model, 'a/config.pbtxt': 'runtime: "x"' })
    const thrown = new Error('no notes, please')
    const error = await errorOf(load(path, { onNote: () => { throw thrown } }))
    expect(error).toMatchObject({ code: 'ERR_INVALID_ARG', argument: 'options.onNote', cause: thrown })
    expect(engine.models()).toEqual([])
  })
  it('waits for all, then rejects with an error per model that failed, and leaves the others ready', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({
      'broken/1/model.onnx': 'no model', 'good/1/model.onnx': model, 'stateful/1/model.onnx': model,
      'stateful/config.pbtxt': 'sequence_batching {}', 'wide/1/model.onnx': model,
      'wide/config.pbtxt': 'max_batch_size: 2 dynamic_batching { preferred_batch_size: 4 }',
    })
    const error = await errorOf(load(path))
    expect(error).toMatchObject({ code: 'ERR_MODEL_LOAD', received: ['stateful', 'broken', 'wide'] })
    expect(error.message).toContain('3 of 4 models')
    expect(error.message).toContain('the other one is ready')
    expect((error.cause as AggregateError).errors).toMatchObject([
      { code: 'ERR_MODEL_CONFIG', model: 'stateful', argument: 'sequence_batching' },
      { code: 'ERR_MODEL_LOAD', model: 'broken' },
      { code: 'ERR_MODEL_CONFIG', model: 'wide', argument: 'dynamicBatching.preferredBatchSize' },
    ])
    expect((await engine.infer('good', { x: Float32Array.of(1, 2) }))['y']!.data).toEqual(Float32Array.of(1, 2))
  })
  it('replaces what is loaded already, and has it serve on where that fails', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({ 'a/2/model.onnx': model })
    const [first] = await load(path)
    expect(await load(path)).toEqual([first])
    writeFileSync(`${path}/a/2/model.onnx`, 'no model')
    expect((await errorOf(load(path))).cause).toMatchObject({ errors: [{ code: 'ERR_MODEL_LOAD', model: 'a' }] })
    expect([engine.models()[0]!.state, engine.model('a').version]).toEqual(['ready', 2])
  })
  it('rejects as closed on a closed engine', async () => {
    const { engine, load } = setUp()
    await engine.close()
    expect(await errorOf(load(temporaryFolder({ 'a/1/model.onnx': model })))).toMatchObject({ code: 'ERR_CLOSED' })
  })
  it.each([
    ['', {}, 'path'], [7, {}, 'path'], ['.', null, 'options'], ['.', { model: 'a' }, 'options.model'],
    ['.', { models: 'a' }, 'options.models'], ['.', { models: [1] }, 'options.models'], ['.', { onNote: true }, 'options.onNote'],
  ])('refuses the arguments %j, %j', async (path, options, argument) => {
    const { load } = setUp()
    expect(await errorOf(load(path as string, options as never))).toMatchObject({ code: 'ERR_INVALID_ARG', argument })
  })
})
