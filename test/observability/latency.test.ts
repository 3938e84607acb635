import { expect, it } from 'vitest'
import { Tensor } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { load, sharedEngine } from '../support/open.ts'
import { outcomeOf } from '../scheduling/outcome.ts'

const engine = sharedEngine()

it('stats() have percentiles of how long answered requests waited, computed and took', async () => {
  const delayMs = 20
  const model = await load(engine, small.matmulSlow(256, 50), {
    maxBatchSize: 64,
    dynamicBatching: { maxQueueDelayMs: delayMs },
  })
  const startMs = performance.now()
  const rows = { x: new Tensor('float32', new Float32Array(256), [1, 256]) }
  await Promise.all(Array.from({ length: 10 }, () => model.infer(rows)))
  const tookMs = performance.now() - startMs
  const { queue, compute, total } = model.stats().latency
  for (const each of [queue, compute, total]) {
    expect(each.count).toBe(10)
    expect(each.p50Ms).toBeLessThanOrEqual(each.p90Ms)
    expect(each.p90Ms).toBeLessThanOrEqual(each.p99Ms)
    expect(each.p99Ms).toBeLessThanOrEqual(each.maxMs)
    expect(each.maxMs).toBeLessThanOrEqual(tookMs)
  }
  expect(queue.maxMs).toBeGreaterThan(delayMs - 1) // the oldest, for which the others came too late to wait as long
  expect(compute.p50Ms).toBeGreaterThan(0)
  expect(total.p50Ms).toBeGreaterThan(0.98 * queue.p50Ms)
})

it('requests that were not answered are not among them', async () => {
  const model = await load(engine, small.gatherRow(), { sessionOptions: { logSeverityLevel: 4 } })
  const [bad] = await Promise.all(
    [99n, 1n, 2n].map((index) => outcomeOf(model.infer({ index: BigInt64Array.of(index) }))),
  )
  expect(bad).toBe('ERR_EXECUTION')
  const { queue, compute, total } = model.stats().latency
  expect([queue.count, compute.count, total.count]).toEqual([2, 2, 2])
})
