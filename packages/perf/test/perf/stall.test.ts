import { describe, expect, it } from 'vitest'
import { inputDefaults, sampleSource } from '../../src/perf/input/sample-source.ts'
import { loadOf, measure } from '../../src/perf/measure.ts'
import { measureDefaults } from '../../src/perf/perf-settings.ts'
import { ownEngine } from '../../../../test/support/open.ts'

describe('a model that does nothing for 500 ms', () => {
  it('shows that at 100 requests a second as a p99 of 400 ms and more, and in what each part of them took', async () => {
    const engine = ownEngine()
    const module = new URL('fixtures/stalling.mjs', import.meta.url)
    const model = await engine.loadFunction('stalling', {
      module,
      inputs: [{ name: 'x', type: 'float32', dims: [4] }],
      outputs: [{ name: 'y', type: 'float32', dims: [4] }],
    })
    const target = { model: model as never, source: await sampleSource(model.metadata, inputDefaults) }
    const settings = { ...measureDefaults, requestCount: 100 }
    const load = loadOf(
      target.source,
      {
        ...settings,
        load: { mode: 'request-rate', range: { start: 100, end: 100, step: 1 }, distribution: 'constant' },
        seed: 1,
        sequences: null,
      },
      100,
    )
    const result = await measure(target, { level: 100, load }, settings)
    expect(result.failures).toEqual({})
    expect(result.requestCount).toBe(100)
    expect(result.latency.p99Us).toBeGreaterThanOrEqual(400_000)
    // Half of them have waited for it, or been in it, for a quarter of a second in the mean.
    expect(result.server.queueUs + result.server.computeInferUs).toBeGreaterThan(60_000)
    expect(result.batchSizes.reduce((sum, { batchSize, count }) => sum + batchSize * count, 0)).toBe(
      result.server.inferenceCount,
    )
  })
})
