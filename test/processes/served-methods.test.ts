import { expect, it } from 'vitest'
import type { InferenceEngine } from '../../src/index.ts'
import { ServedMethods } from '../../src/processes/served-methods.ts'
import { collectGarbage } from '../support/garbage.ts'

it('methods of a served engine keep nothing of models that clients have loaded and unloaded', async () => {
  const models = new Map<string, { state: string; version: number }>()
  const known: WeakRef<{ state: string }>[] = []
  const engine = {
    load: async (name: string) => {
      const model = { state: 'ready', version: 1 }
      models.set(name, model)
      known.push(new WeakRef(model))
      return model
    },
    unload: async (name: string) => {
      models.get(name)!.state = 'closed'
      models.delete(name)
    },
  }
  const methods = new ServedMethods(engine as unknown as InferenceEngine)
  for (const name of ['a', 'b', 'c']) expect(await methods.call('load', [name, { path: 'x' }])).toEqual({ version: 1 })
  for (const name of ['a', 'c']) await methods.call('unload', [name])
  await new Promise(setImmediate)
  collectGarbage()
  expect(known.map((each) => each.deref()?.state)).toEqual([undefined, 'ready', undefined])
})
