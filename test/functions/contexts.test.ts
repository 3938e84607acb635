import { AsyncLocalStorage } from 'node:async_hooks'
import { expect, it } from 'vitest'
import { ownEngine } from '../support/open.ts'
import { one } from '../pipelines/arithmetic.ts'

it('a function of the application runs in the context of none of its callers, who have their own afterwards', async () => {
  const storage = new AsyncLocalStorage<string>()
  const engine = ownEngine({ cpuWorkers: 1 })
  const seen: (string | undefined)[] = []
  const declared = {
    inputs: [{ name: 'x', type: 'float32', dims: [1] }],
    outputs: [{ name: 'y', type: 'float32', dims: [1] }],
  } as const
  const model = await storage.run(
    'who loads',
    () =>
    engine.loadFunction('echo', {
      ...declared, maxBatchSize: 4,
      run: async ({ x }) => {
        seen.push(storage.getStore())
        await Promise.resolve()
        seen.push(storage.getStore())
        return { y: Float32Array.from(x.data) }
      },
    }), // prettier-ignore
  )
  const afterwards = ['a', 'b', 'c'].map((name) =>
    storage.run(name, async () => (await model.infer({ x: one(1) }), storage.getStore())),
  )
  expect(await Promise.all(afterwards)).toEqual(['a', 'b', 'c'])
  expect(new Set(seen)).toEqual(new Set([undefined]))
  expect(model.stats().executionCount).toBe(1)
})
