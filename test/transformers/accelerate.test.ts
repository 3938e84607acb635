import { env, pipeline } from '@huggingface/transformers'
import { InferenceSession } from 'onnxruntime-node'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { accelerate } from '../../src/adapters/transformers/transformers-exports.ts'
import { graph } from '../models/builder.ts'
import { modelPath } from '../models/cache.ts'
import { identity } from '../models/identity.ts'
import { bert } from '../models/pipelines.ts'
import { ownEngine } from '../support/open.ts'

env.allowRemoteModels = false
env.useFSCache = false

async function classifier() {
  const { root, name } = bert('text-classification')
  env.localModelPath = root
  const loaded = await pipeline('text-classification', name, { dtype: 'fp32' })
  onTestFinished(() => loaded.dispose().catch(() => {})) // a test may have done so
  return loaded
}

/** What is left of a pipeline where only its sessions matter. */
const pipelineOf = async (paths: Readonly<Record<string, string>>) => {
  const sessions = await Promise.all(
    Object.entries(paths).map(async ([name, path]) => [name, await InferenceSession.create(path)] as const),
  )
  return { model: { sessions: Object.fromEntries(sessions) } }
}

/** y = x beside a state that is handed on. */
const decoder = (state = 'past_key_values.0.key') =>
  modelPath(`decoder-${state}`, () => graph('decoder')
    .input('x', 'float32', ['N', 4])
    .input(state, 'float32', ['N', 'L'])
    .output('y', 'float32', ['N', 4])
    .output('present.0.key', 'float32', ['N', 'L'])
    .node('Identity', ['x'], ['y'])
    .node('Identity', [state], ['present.0.key'])
    .build()) // prettier-ignore

describe('accelerate()', () => {
  it('answers with the pipeline itself, on the default engine, in one line', async () => {
    const loaded = await classifier()
    const before = loaded.model.sessions['model']
    expect(await accelerate(loaded)).toBe(loaded)
    expect(loaded.model.sessions['model']).not.toBe(before)
    expect(loaded.model.sessions['model'].config).toEqual(before.config)
    expect(await loaded('the queue is fast')).toEqual([
      { label: expect.any(String), score: expect.any(Number) },
    ])
  })

  it('does nothing more to what is accelerated already', async () => {
    const engine = ownEngine()
    const loaded = await accelerate(await classifier(), { engine })
    const once = loaded.model.sessions['model']
    await accelerate(loaded, { engine })
    expect(loaded.model.sessions['model']).toBe(once)
  })

  it('has pipelines of one file share a model, which goes with the last of them', async () => {
    const engine = ownEngine()
    const [first, second] = [
      await accelerate(await classifier(), { engine }),
      await accelerate(await classifier(), { engine }),
    ]
    expect(engine.models()).toHaveLength(1)
    await first.dispose()
    expect(engine.models()).toHaveLength(1)
    await second.dispose()
    expect(engine.models()).toHaveLength(0)
  })

  it('takes a model without a pipeline as well', async () => {
    const { model } = await classifier()
    const engine = ownEngine()
    await accelerate(model, { engine })
    expect(engine.models()).toHaveLength(1)
  })

  it('replaces all sessions, or none', async () => {
    const engine = ownEngine()
    const given = await pipelineOf({ one: identity('float32'), two: identity('int64') })
    const { one, two } = given.model.sessions
    await expect(
      accelerate(given, { engine, models: { two: { path: 'not-there.onnx' } } }),
    ).rejects.toMatchObject({ code: 'ERR_MODEL_NOT_FOUND' })
    expect(given.model.sessions).toEqual({ one, two })
    expect(engine.models()).toHaveLength(0)
    await accelerate(given, { engine })
    expect(engine.models()).toHaveLength(2)
  })

  it('leaves a session with a state of its own as it is, with a warning', async () => {
    const engine = ownEngine()
    const given = await pipelineOf({ decoder: decoder(), other: identity('float32') })
    const before = given.model.sessions['decoder']
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    onTestFinished(() => warned.mockRestore())
    await accelerate(given, { engine })
    expect(given.model.sessions['decoder']).toBe(before)
    expect(engine.models()).toHaveLength(1)
    expect(warned).toHaveBeenCalledExactlyOnceWith(expect.stringContaining("Session 'decoder'"), {
      type: 'ZerohopWarning',
      code: 'ZEROHOP_NOT_ACCELERATED',
    })
  })

  it('has to be told where the file of a session is that was opened of bytes', async () => {
    const { readFileSync } = await import('node:fs')
    const session = await InferenceSession.create(readFileSync(identity('float32')))
    const given = { model: { sessions: { model: session } } }
    const engine = ownEngine()
    await expect(accelerate(given, { engine })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: "session 'model'",
      message: expect.stringContaining('{ models: { model: { path } } }'),
    })
    await accelerate(given, { engine, models: { model: { path: identity('float32'), maxBatchSize: 4 } } })
    expect(engine.models()[0]!.metadata.maxBatchSize).toBe(4)
  })

  it.each([
    [null],
    [5],
    [{}],
    [{ model: null }],
    [{ model: {} }],
    [{ model: { sessions: {} } }],
    [{ model: { sessions: { model: {} } } }],
  ])('refuses %j, which is no pipeline', async (given) => {
    await expect(accelerate(given as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'pipeline',
    })
  })

  it.each<[object | null, string]>([
    [null, 'options'],
    [{ pading: false }, 'options.pading'],
    [{ engine: {} }, 'engine'],
    [{ models: 5 }, 'options.models'],
    [{ models: { modle: {} } }, 'options.models.modle'],
    [{ models: { model: 5 } }, 'options.models.model'],
  ])('refuses the options %j', async (options, argument) => {
    await expect(accelerate(await classifier(), options as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument,
    })
  })

  it('replaces sessions once when it is called twice at once', async () => {
    const engine = ownEngine()
    const loaded = await classifier()
    await Promise.all([accelerate(loaded, { engine }), accelerate(loaded, { engine })])
    expect(engine.models()).toHaveLength(1)
    await loaded.dispose()
    expect(engine.models()).toHaveLength(0)
  })

  it('answers all calls of a pipeline that is in use meanwhile', async () => {
    const loaded = await classifier()
    let accelerated = false
    const call = accelerate(loaded, { engine: ownEngine() }).finally(() => (accelerated = true))
    while (!accelerated) expect(await loaded('the queue is fast')).toHaveLength(1)
    await call
  })

  it('does not bring a pipeline back that was disposed of', async () => {
    const engine = ownEngine()
    const loaded = await classifier()
    const { sessions } = loaded.model
    const before = { ...sessions }
    await loaded.dispose()
    await expect(accelerate(loaded, { engine })).rejects.toThrow('Session already disposed.')
    expect(sessions).toEqual(before)
    expect(engine.models()).toHaveLength(0)
    delete sessions['model'] // nothing is left to be disposed of
  })

  it.each(['past_key_values.0.key', 'past_conv.0', 'past_ssm.0'])(
    'leaves a session that takes %s as it is',
    async (state) => {
      const engine = ownEngine()
      const given = await pipelineOf({ decoder: decoder(state) })
      const before = given.model.sessions['decoder']
      const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
      onTestFinished(() => warned.mockRestore())
      await accelerate(given, { engine })
      expect(given.model.sessions['decoder']).toBe(before)
      expect(warned).toHaveBeenCalledExactlyOnceWith(
        expect.stringContaining(`it takes ${state.split('.')[0]},`),
        expect.anything(),
      )
    },
  )

  it('fills nothing up where it is told not to', async () => {
    const engine = ownEngine({ inline: false })
    const loaded = await accelerate(await classifier(), { engine, padding: false })
    await Promise.all(
      ['the queue', 'the queue is fast', 'the queue is slow and large'].map((text) => loaded(text)),
    )
    expect(engine.models()[0]!.stats()).toMatchObject({ executionCount: 3, padding: { paddedElements: 0 } })
  })
})
