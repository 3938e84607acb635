import { describe, expect, expectTypeOf, it } from 'vitest'
import type { EngineInferOptions, InferenceEngine, Model, ModelConfig, Tensor } from '../../src/index.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import { outcomeOf } from '../scheduling/outcome.ts'
import { ownEngine } from '../support/open.ts'
import { markedModel, markOf } from '../support/versions.ts'

const feeds = { x: new Float32Array(4).fill(1) }
const config = (mark: number, version?: number | string): ModelConfig => ({
  bytes: markedModel(mark),
  warmup: false,
  ...(version === undefined ? {} : { version }),
})
const markFrom = async (model: Model) => markOf(await model.infer(feeds), 1)

/** An engine with versions 3, 7 and 10 of `m`, whose marks are these numbers. */
async function withVersions(): Promise<InferenceEngine> {
  const engine = ownEngine({ cpuWorkers: 2 })
  await Promise.all([10, 3, 7].map((version) => engine.load('m', config(version, version))))
  return engine
}

describe('versions of a name', () => {
  it('stand beside each other, and requests that name none go to the newest', async () => {
    const engine = await withVersions()
    expect(markOf(await engine.infer('m', feeds), 1)).toBe(10)
    for (const version of [3, '7', 10])
      expect(markOf(await engine.infer('m', feeds, { version }), 1)).toBe(Number(version))
    expect(await markFrom(engine.model('m', 3))).toBe(3)
    expect(
      (await engine.infer('m', feeds, { version: 7, outputs: ['sum'], report: true })).report.batchSize,
    ).toBe(1)
  })

  it('are shown by the model of the name, which is one for all of them', async () => {
    const engine = await withVersions()
    expect(engine.models()).toEqual([engine.model('m')])
    const model = engine.model('m')
    const ready = { state: 'ready', failure: null, replacing: false }
    expect([model.version, model.versions]).toEqual([
      10,
      [
        { version: 3, ...ready },
        { version: 7, ...ready },
        { version: 10, ...ready },
      ],
    ])
    expect([engine.model('m', 7).version, engine.model('m', 7).versions.length]).toEqual([7, 3])
    expect(engine.model('m', '7')).toBe(engine.model('m', 7))
  })

  it('fall back to an older one when the newest is unloaded, and go on to one that comes', async () => {
    const engine = await withVersions()
    const model = engine.model('m')
    const accepted = Array.from({ length: 20 }, () => markFrom(model))
    const unloading = engine.unload('m', { version: 10 })
    expect(await markFrom(model)).toBe(7)
    await unloading
    expect(new Set(await Promise.all(accepted))).toEqual(new Set([10]))
    expect([model.version, model.versions.map(({ version }) => version)]).toEqual([7, [3, 7]])
    await engine.load('m', config(11, 11))
    expect(await markFrom(model)).toBe(11)
  })

  it('do not wait for a newer one that is loading, or has failed to', async () => {
    const engine = await withVersions()
    const model = engine.model('m')
    const loading = rejectionOf(() => engine.load('m', { bytes: Uint8Array.of(1), version: 11 }))
    expect([model.version, model.versions.at(-1)]).toEqual([
      10,
      { version: 11, state: 'loading', failure: null, replacing: false },
    ])
    expect(await markFrom(model)).toBe(10)
    expect(await loading).toMatchObject({ code: 'ERR_MODEL_LOAD' })
    expect(model.versions.map(({ version }) => version)).toEqual([3, 7, 10])
  })

  it('are each a model of their own for whoever got that one', async () => {
    const engine = ownEngine()
    const name = await engine.load('m', config(1))
    const second = await engine.load('m', config(2, 2))
    const first = engine.model('m', 1)
    expect([await markFrom(name), await markFrom(first), await markFrom(second)]).toEqual([2, 1, 2])
    await second.unload()
    expect([name.state, first.state, second.state]).toEqual(['ready', 'ready', 'closed'])
    expect(await outcomeOf(second.infer(feeds))).toBe('ERR_CLOSED')
    expect(await markFrom(name)).toBe(1)
    await name.unload()
    expect([name.state, first.state, engine.models()]).toEqual(['closed', 'closed', []])
  })

  it('have statistics each, beside those of the one that serves', async () => {
    const engine = await withVersions()
    await Promise.all([3, 3, 10].map((version) => engine.infer('m', feeds, { version })))
    const { m } = engine.stats().models
    expect([m!.version, m!.inferenceCount]).toEqual([10, 1])
    expect(
      Object.entries(m!.versions).map(([version, { inferenceCount }]) => [version, inferenceCount]),
    ).toEqual([
      ['3', 2],
      ['7', 0],
      ['10', 1],
    ])
  })

  it('are told of with their numbers', async () => {
    const engine = ownEngine()
    const events: unknown[] = []
    engine.on('model', (event) => events.push(event))
    await engine.load('m', config(2, '2'))
    await engine.load('m', config(1))
    await engine.unload('m', { version: 2 })
    expect(events).toEqual([
      { type: 'ready', model: 'm', version: 2 },
      { type: 'ready', model: 'm', version: 1 },
      { type: 'draining', model: 'm', version: 2 },
      { type: 'closed', model: 'm', version: 2 },
    ])
  })
})

describe('a version that there is not', () => {
  it('is not found, and the error tells those that there are', async () => {
    const engine = await withVersions()
    const refusal = {
      code: 'ERR_MODEL_NOT_FOUND',
      argument: 'version',
      expected: /loaded: 3, 7, 10/,
      received: 4,
    }
    expectRefusal(await rejectionOf(() => engine.infer('m', feeds, { version: 4 })), refusal)
    expectRefusal(await rejectionOf(() => engine.unload('m', { version: 4 })), refusal)
    expectRefusal(await rejectionOf(async () => engine.model('m', 4)), refusal)
    expect(await rejectionOf(() => engine.infer('other', feeds, { version: 4 }))).toMatchObject({
      code: 'ERR_MODEL_NOT_FOUND',
      argument: 'name',
    })
  })

  it.each([0, -1, 1.5, NaN, 2 ** 53, '', '01', '1 ', 'one', '99999999999999999', null, {}, [1], true])(
    'is refused as a number of one: %j',
    async (version) => {
      const engine = ownEngine()
      const given = { version } as never
      const expected = /^a whole number/
      expectRefusal(await rejectionOf(() => engine.load('m', { ...config(1), ...(given as object) })), {
        code: 'ERR_MODEL_CONFIG',
        argument: 'version',
        expected,
      })
      await engine.load('m', config(1))
      expectRefusal(await rejectionOf(() => engine.infer('m', feeds, given)), {
        argument: 'options.version',
        expected,
      })
      expectRefusal(await rejectionOf(() => engine.unload('m', given)), {
        argument: 'options.version',
        expected,
      })
      expectRefusal(await rejectionOf(async () => engine.model('m', version as never)), {
        argument: 'version',
        expected,
      })
      expect(engine.model('m').state).toBe('ready')
    },
  )

  it('is none of the options of a model, which has one', async () => {
    const model = await ownEngine().load('m', config(1))
    expectRefusal(await rejectionOf(() => model.infer(feeds, { version: 1 } as never)), {
      argument: 'options.version',
    })
  })

  it('counts only as a property of its own, and is read once', async () => {
    const engine = await withVersions()
    expect(
      markOf(
        await engine.infer('m', feeds, { __proto__: { __proto__: null, version: 3 } } as EngineInferOptions),
        1,
      ),
    ).toBe(10)
    let reads = 0
    const options = {
      get version() {
        return [3, 7][reads++]
      },
    }
    expect([markOf(await engine.infer('m', feeds, options as EngineInferOptions), 1), reads]).toEqual([3, 1])
    const thrown = new Error('no version, please')
    const throwing = {
      get version(): number {
        throw thrown
      },
    }
    expect(await rejectionOf(() => engine.infer('m', feeds, throwing))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      cause: thrown,
    })
  })
})

it('the types of requests by version are those of requests', () => {
  interface Marked {
    inputs: { x: Float32Array }
    outputs: { sum: Tensor; product: Tensor }
  }
  const ask = (engine: InferenceEngine) =>
    engine.infer<Marked, 'sum'>('m', feeds, { version: 2, outputs: ['sum'] })
  expectTypeOf(ask).returns.resolves.toHaveProperty('sum')
  expectTypeOf(ask).returns.resolves.not.toHaveProperty('product')
})
