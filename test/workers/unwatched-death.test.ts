import { describe, expect, it } from 'vitest'
import { resolveConfig } from '../../src/options/model-config.ts'
import { asItIs } from '../../src/models/compiled-models/prepared-model.ts'
import { LoadedModel } from '../../src/engine/loaded-model.ts'
import { ModelUses } from '../../src/engine/model-registry.ts'
import { Observers } from '../../src/observe/observers.ts'
import { House, settled } from './serving.ts'
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
      let lastId = 0
      const model = new LoadedModel('m', config, {
        clock: house.clock,
        keepAlive: house.keepAlive,
        observers: new Observers(),
        staging: () => ({}) as never,
        trim: () => {},
        released: async () => {},
        nextId: () => ++lastId,
        find: () => expect.fail('it is no pipeline'),
        uses: new ModelUses(),
        changed: () => {},
        sequenceOver: () => {},
        sessionRuntime: () => ({ ortVersion: '1.30.0', useProvider: (entry) => entry }),
        prepare: async () => asItIs('there is no cache'),
        providers: { lacking: async () => false, opened: () => [] },
        place: async (_model, _config, place) => {
          for (const { worker } of house.places)
            place(worker, { kind: 'cpu', gpu: 0, intraOpNumThreads: 1 }, 0)
        },
        placeMore: () => Promise.reject(new Error('nothing more is placed')),
      })
      const loaded = await model.load().catch((error: Error) => error.message)
      expect([loaded, model.state]).toEqual(
        dies ? [expect.stringContaining('thread'), 'failed'] : [undefined, 'ready'],
      )
    },
  )
})
