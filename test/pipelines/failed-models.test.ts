import { describe, expect, it } from 'vitest'
import { fixture } from '../functions/load-function.ts'
import { deferred } from '../support/deferred.ts'
import { ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'

const io = {
  inputs: [{ name: 'x', type: 'int32', dims: [1] }],
  outputs: [{ name: 'y', type: 'int32', dims: [1] }],
} as const
const int = (x: number) => ({ x: Int32Array.of(x) })

describe('a step whose model has failed', () => {
  it('goes on once that is loaded again, also if that failed at first', async () => {
    const engine = ownEngine()
    const load = (module: string) => engine.loadFunction('doubled', { ...io, module: fixture(module) })
    const doubled = await load('misbehaving.mjs')
    const step = { model: 'doubled', inputs: { x: 'x' }, outputs: { y: 'y' } }
    const model = await engine.loadPipeline('going-on', { inputs: ['x'], steps: [step], outputs: ['y'] })
    const ofVersion = await engine.loadPipeline('of-version', {
      inputs: ['x'],
      steps: [{ ...step, version: 1 }],
      outputs: ['y'],
    })
    for (let deaths = 0; deaths < 3; deaths++)
      await expect(model.infer(int(-4))).rejects.toMatchObject({
        code: 'ERR_INSTANCE_CRASHED',
        step: 'doubled',
      })
    await until(() => doubled.state === 'failed')
    await expect(model.infer(int(1))).rejects.toMatchObject({ code: 'ERR_MODEL_NOT_READY', step: 'doubled' })
    const [called, ended] = [deferred<void>(), deferred<void>()]
    const run = async () => {
      called.resolve()
      await ended.promise
      throw new Error('not yet')
    }
    const refused = expect(
      engine.loadFunction('doubled', { ...io, run, warmup: [{ feeds: int(0) }] }),
    ).rejects.toMatchObject({ code: 'ERR_MODEL_LOAD' })
    await called.promise
    expect(model.capacity()).toMatchObject({ instances: 0, free: 0 })
    ended.resolve()
    await refused
    await expect(model.infer(int(1))).rejects.toMatchObject({ code: 'ERR_MODEL_NOT_READY', step: 'doubled' })
    await load('misbehaving.mjs')
    for (const each of [model, ofVersion])
      expect((await each.infer(int(4)))['y']!.data).toEqual(Int32Array.of(8))
    expect(model.capacity().instances).toBe(1)
  })
})
