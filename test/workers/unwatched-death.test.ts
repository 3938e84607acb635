import { describe, expect, it } from 'vitest'
import { resolveConfig } from '../../src/options/model-config.ts'
import { resolveEngineOptions } from '../../src/options/engine-options.ts'
import { EngineResources } from '../../src/engine/engine-resources.ts'
import { LoadedModel } from '../../src/engine/loaded-model.ts'
import { FakeHost, House, settled } from './serving.ts'
import { libraryCarrier } from '../../src/tensor/metadata.ts'

const x = { name: 'x', isTensor: true, type: 'float32', shape: ['N', 4] } as const

describe('a model that is loaded', () => {
  it.each([false, true])(
    'is ready only when its threads live (one dies while nothing is asked of it: %s)',
    async (dies) => {
      const house = await House.open(2)
      const [first, last] = house.places.map(({ threads }) => threads)
      first!.opened = last!.opened = { inputs: [x], outputs: [{ ...x, name: 'y' }], carrier: libraryCarrier }
      last!.onSample = async () => {
        // The first one was warmed up before, and is asked nothing more.
        if (dies) first!.current.die()
        await settled()
      }
      const warmup = [{ feeds: { x: { type: 'float32', dims: [1, 4], data: new Float32Array(4) } } }] as const
      const config = resolveConfig('m', {
        bytes: new Uint8Array(1),
        maxBatchSize: 4,
        checkRows: false,
        warmup,
      } as never)
      const engine = new EngineResources(resolveEngineOptions({ cache: false, verify: 'none' }))
      const host = new FakeHost(house.clock, house.places, () => expect.fail('nothing is run'))
      const model = new LoadedModel('m', config, Object.assign(engine, { host }), { changed: () => {} })
      const loaded = await model.load().catch((error: Error) => error.message)
      expect([loaded, model.state]).toEqual(
        dies ? [expect.stringContaining('thread'), 'failed'] : [undefined, 'ready'],
      )
    },
  )
})
