import { expect, it } from 'vitest'
import { InferenceEngine } from '../../src/index.ts'
import { identity } from '../models/identity.ts'

it('requests that were joined with one whose data are gone are answered before the model is unloaded', async () => {
  const engine = new InferenceEngine({ cpuWorkers: 1 })
  const model = await engine.load('m', { path: identity('float32'), maxBatchSize: 8 })
  const feeds = () =>
    Object.fromEntries(model.metadata.inputs.map(({ name }) => [name, new Float32Array(4).fill(3)]))
  const gone = feeds()
  const answers = Promise.allSettled([model.infer(feeds()), model.infer(gone), model.infer(feeds())])
  for (const { buffer } of Object.values(gone)) structuredClone(buffer, { transfer: [buffer] })
  await model.unload()
  const settled = await Promise.race([answers, new Promise<null>((resolve) => setImmediate(resolve, null))])
  expect(settled?.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  await engine.close()
})
