import { describe, expect, it } from 'vitest'
import { rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { outcomeOf } from '../scheduling/outcome.ts'
import { ownEngine } from '../support/open.ts'

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
