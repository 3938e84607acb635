import { afterEach, expect, it, vi } from 'vitest'
import type { ModelMetadata } from '../../../../src/index.ts'
import { loadClock } from '../../src/perf/load/load.ts'
import { measureDefaults } from '../../src/perf/perf-settings.ts'
import { replay, ReplaySource } from '../../src/perf/replay/replay.ts'
import { mulberry32 } from '../../../../src/base/seeded-random.ts'
import { measureLoad } from '../../src/tune/measure-load.ts'
import { load, sharedEngine } from '../../../../test/support/open.ts'
import { identity } from '../../../../test/models/small.ts'

const engine = sharedEngine()
const served = () => load(engine, identity('float32'))
const ratePerSecond = 100
const seconds = 1.2

afterEach(() => void vi.restoreAllMocks())

it.each([
  [
    'replays a recording',
    async () => {
      const model = await served()
      const arrivals = Array.from({ length: ratePerSecond * seconds }, (_, index) => ({
        atUs: (index * 1e6) / ratePerSecond,
        rows: 1,
      }))
      const source = new ReplaySource(
        arrivals,
        model.metadata as ModelMetadata,
        { kind: 'zero', stringLength: 1, stringData: null },
        new Map(),
        mulberry32(1),
      )
      await replay({ model, source }, 1, measureDefaults, {})
    },
  ],
  [
    'tunes for a rate',
    async () => {
      const model = await served()
      const source = { size: 1, next: () => ({ feeds: { x: new Float32Array(4) }, rows: 1 }) }
      await measureLoad(model, source, {
        type: 'measure',
        name: 'model',
        load: { rate: ratePerSecond },
        warmupMs: 1,
        windowMs: 1000 * seconds,
      })
    },
  ],
])('whoever %s has the event loop rest until a request is due', async (_, measured) => {
  const turns = vi.spyOn(loadClock, 'nextTurn')
  await measured()
  // To look again and again for the last milliseconds takes 800 turns each, and more; until the sleeping thread has started that is so.
  expect(turns.mock.calls.length / (ratePerSecond * seconds)).toBeLessThan(200)
})
