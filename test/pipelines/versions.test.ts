import { expect, it } from 'vitest'
import { ownEngine } from '../support/open.ts'
import { beginLoad, one, step } from './arithmetic.ts'

it('of the versions of a step, the last one that serves cannot be unloaded', async () => {
  const engine = ownEngine()
  const run =
    (factor: number) =>
    ({ x }: { x: { data: Float32Array } }) => ({ y: Float32Array.from(x.data, (value) => factor * value) })
  const io = {
    inputs: [{ name: 'x', type: 'float32', dims: [1] }],
    outputs: [{ name: 'y', type: 'float32', dims: [1] }],
  } as const
  const [first, second] = [
    await engine.loadFunction('times', { ...io, version: 1, run: run(1) }),
    await engine.loadFunction('times', { ...io, version: 2, run: run(2) }),
  ]
  const third = await beginLoad(engine, 'times', 3)
  const model = await engine.loadPipeline('whichever', {
    inputs: ['x'],
    steps: [step('times', 'x', 'y')],
    outputs: ['y'],
  })
  const unloads = await Promise.allSettled([second.unload(), first.unload()])
  expect(unloads).toMatchObject([
    { status: 'fulfilled' },
    { status: 'rejected', reason: { code: 'ERR_MODEL_IN_USE', model: 'times' } },
  ])
  expect((await model.infer({ x: one(5) }))['y']!.data).toEqual(one(5))
  third.open()
  await third.loading
  await first.unload()
  expect((await model.infer({ x: one(5) }))['y']!.data).toEqual(one(5))
  await expect(engine.unload('times', { version: 3 })).rejects.toMatchObject({ code: 'ERR_MODEL_IN_USE' })
})
