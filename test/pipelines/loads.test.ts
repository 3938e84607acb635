import { describe, expect, it } from 'vitest'
import { ownEngine } from '../support/open.ts'
import { beginLoad, loadNumber, one, step } from './arithmetic.ts'

describe('a pipeline whose step is still being loaded', () => {
  it('lets go of it as soon as its own load is aborted', async () => {
    const engine = ownEngine()
    const { loading, open } = await beginLoad(engine, 'slow')
    const controller = new AbortController()
    const pipeline = engine.loadPipeline(
      'waiting',
      { inputs: ['x'], steps: [step('slow', 'x', 'y')], outputs: ['y'] },
      { signal: controller.signal },
    )
    await Promise.resolve()
    await expect(engine.unload('slow')).rejects.toMatchObject({ code: 'ERR_MODEL_IN_USE' })
    controller.abort(new Error('not wanted'))
    await expect(pipeline).rejects.toThrow('not wanted')
    const unloaded = engine.unload('slow')
    open()
    await unloaded
    await expect(loading).rejects.toMatchObject({ code: 'ERR_CLOSED' })
  })

  it('can be unloaded before that is', async () => {
    const engine = ownEngine()
    await loadNumber(engine, 'twice', (x) => 2 * x)
    await engine.loadPipeline('replaced', { inputs: ['x'], steps: [step('twice', 'x', 'y')], outputs: ['y'] })
    const { loading, open } = await beginLoad(engine, 'slow')
    const pipeline = engine.loadPipeline('replaced', {
      inputs: ['x'],
      steps: [step('slow', 'x', 'y')],
      outputs: ['y'],
    })
    const refused = expect(pipeline).rejects.toMatchObject({ code: 'ERR_CLOSED', model: 'replaced' })
    await Promise.resolve()
    await engine.unload('replaced')
    await refused
    open()
    expect((await (await loading).infer({ x: one(3) }))['y'].data).toEqual(one(3))
  })
})
