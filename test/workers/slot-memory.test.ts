import { describe, expect, it } from 'vitest'
import type { Tensor } from '../../src/index.ts'
import { identity } from '../models/small.ts'
import { load, ownEngine } from '../support/open.ts'

describe('a slot for which a worker has no memory', () => {
  it('fails the batch that was in it, and serves the next one', async () => {
    const execArgv = ['--import', new URL('fixtures/memory-refused-once.mjs', import.meta.url).href]
    const engine = ownEngine({ cpuWorkers: 1, workers: { execArgv }, staging: { kind: 'copied' } })
    const model = await load(engine, identity('float32'), { maxBatchSize: 0 })
    const x = Float32Array.of(1, 2, 3, 4)
    const infer = async () =>
      (await model.infer({ x: { type: 'float32', dims: [1, 4], data: x } as unknown as Tensor })).y!.data
    await expect(infer()).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      cause: { message: 'Array buffer allocation failed' },
    })
    expect(await infer()).toEqual(x)
  })
})
