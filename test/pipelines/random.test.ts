import { describe, expect, it } from 'vitest'
import { identity } from '../models/identity.ts'
import { mulberry32 } from '../models/random.ts'
import { ownEngine } from '../support/open.ts'
import { inParallel } from '../support/shared.ts'
import { loadNumber, loadSum, one, step } from './arithmetic.ts'
import { repetitions } from '../support/full.ts'

const requests = repetitions(10_000, 1500)

describe(`${requests} requests that are cancelled or have deadlines at random`, () => {
  it('are each settled once, rightly, counted once, and leave nothing', async () => {
    const engine = ownEngine()
    const random = mulberry32(11)
    await engine.load('identity', { path: identity('float32', [1]), maxBatchSize: 16 })
    await loadNumber(engine, 'twice', (x) => 2 * x)
    await loadSum(engine, 'sum')
    const model = await engine.loadPipeline('random', {
      inputs: ['x'],
      steps: [
        step('identity', 'x', 'same'),
        step('twice', 'x', 'twice'),
        { ...step('identity', 'twice', 'late'), when: ({ twice }) => (twice!.data[0] as number) % 4 === 0 },
        { model: 'sum', inputs: { a: 'same', b: 'late' }, outputs: { sum: 'y' } },
      ],
      outputs: ['y'],
      maxInFlight: 48,
    })
    for (let burst = 0; burst < 8; burst++)
      await Promise.all(Array.from({ length: 64 }, (_, x) => model.infer({ x: one(x) })))
    // More than one batch of each at once: all memory that they may ever need at a time.
    await Promise.all(
      Array.from({ length: 128 }, () => [
        engine.infer('identity', { x: one(0) }),
        engine.infer('twice', { x: one(0) }),
        engine.infer('sum', { a: one(0), b: one(0) }),
      ]).flat(),
    )
    const baseline = engine.stats()
    const before = model.stats().inferenceStats.success.count
    const ends: Record<string, number> = {}
    await inParallel(
      64,
      Array.from({ length: requests }, (_, x) => x),
      async (x) => {
        const controller = new AbortController()
        const how = random()
        if (how < 0.3) setTimeout(() => controller.abort('aborted'), 2 * random())
        else if (how < 0.4) setImmediate(() => controller.abort('aborted'))
        else if (how < 0.45) queueMicrotask(() => controller.abort('aborted'))
        const limits =
          how < 0.6
            ? { signal: controller.signal }
            : how < 0.75
              ? { deadlineMs: 0.05 + 2 * random() }
              : how < 0.85
                ? { timeoutMs: 0.05 + random() }
                : {}
        const end = await model.infer({ x: one(x) }, limits).then(
          ({ y }) => ((y!.data[0] as number) === (x % 2 === 0 ? 3 * x : x) ? 'right' : 'wrong'),
          (reason: { code?: string }) => reason.code ?? String(reason),
        )
        ends[end] = (ends[end] ?? 0) + 1
      },
    )
    const { inferenceStats, rejections, steps, pendingRequestCount } = model.stats()
    expect(Object.keys(ends).sort()).toEqual(['ERR_DEADLINE', 'ERR_TIMEOUT', 'aborted', 'right'])
    expect(Object.values(ends).reduce((sum, count) => sum + count, 0)).toBe(requests)
    expect(inferenceStats.success.count).toBe(ends['right']! + before)
    expect(rejections).toMatchObject({
      cancelled: ends['aborted'],
      deadline: ends['ERR_DEADLINE'],
      timeout: ends['ERR_TIMEOUT'],
    })
    expect(steps![3]!.success.count).toBe(inferenceStats.success.count)
    expect([pendingRequestCount, model.capacity().running, model.capacity().waiting]).toEqual([0, 0, 0])
    for (const name of ['identity', 'twice', 'sum']) expect(engine.model(name).capacity().waiting).toBe(0)
    expect([engine.stats().staging!.usedBytes, engine.stats().functionStaging?.usedBytes]).toEqual([
      baseline.staging!.usedBytes,
      baseline.functionStaging?.usedBytes,
    ])
    await model.unload()
    for (const name of ['identity', 'twice', 'sum']) await engine.unload(name)
    expect(engine.stats().staging!.usedBytes).toBe(0)
  })
})
