import { describe, expect, it, onTestFinished } from 'vitest'
import { settingsToTry } from '../../src/models/scaling/throughput-search.ts'
import * as small from '../models/small.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import { full } from '../support/full.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'

const shared = sharedEngine()
const size = 64

describe('a model with autoTune', () => {
  it('tries settings while it is busy, and answers every request with its own rows meanwhile', async () => {
    const engine = ownEngine({ cpuWorkers: 2, inline: false })
    // Runs that are long beside what this thread does keep an instance saturated, which a search waits for.
    const model = await load(engine, small.matmulLoop(size, 2000), {
      maxBatchSize: 4,
      dynamicBatching: full ? {} : false, // without it only numbers of instances are tried
      autoTune: { maxInstances: 2 },
    })
    const alone = await Promise.all(
      Array.from({ length: 8 }, (_, caller) => model.infer({ x: new Float32Array(size).fill(caller / 100) })),
    )
    const seen = new Set<number>()
    let answered = 0
    let searched = false
    const looks = setInterval(() => {
      const { autoTune, instanceCount } = model.stats()
      seen.add(instanceCount)
      searched = full ? autoTune!.searchCount > 0 : autoTune!.tried.length > 1 // the turns of the best two take longest
    }, 20)
    onTestFinished(() => clearInterval(looks))
    const caller = async (outputs: (typeof alone)[number], number: number): Promise<void> => {
      while (!searched) {
        const own = await model.infer({ x: new Float32Array(size).fill(number / 100) })
        answered++
        const [expected, found] = [outputs, own].map((each) => Object.values(each)[0]!.data as Float32Array)
        for (const [index, value] of expected!.entries())
          if (Math.abs(found![index]! - value) > 1e-5 * Math.max(1, Math.abs(value)))
            throw new Error(`row ${number} has another's value`)
      }
    }
    await Promise.all(alone.map(caller))
    const { autoTune, rejections, inferenceStats } = model.stats()
    expect([...seen].sort()).toEqual([1, 2])
    expect(autoTune!.tried.length).toBeGreaterThanOrEqual(full ? 4 : 2)
    expect(Object.values(rejections).every((count) => count === 0)).toBe(true)
    expect(inferenceStats.success.count).toBe(answered + alone.length)
  }, 120_000)

  it.each([
    [4, true, [4, 1]],
    [1, false, [1]],
  ] as const)(
    'tries batches of up to %d rows where dynamicBatching is %j',
    async (batchRows, dynamicBatching, tried) => {
      const model = await load(shared, small.identity('float32'), {
        maxBatchSize: 4,
        dynamicBatching: dynamicBatching ? {} : false,
        autoTune: { maxInstances: 2 },
      })
      const { autoTune } = model.stats()
      expect(autoTune).toMatchObject({ instances: 1, batchRows })
      expect([
        ...new Set(settingsToTry(2, batchRows, autoTune!).map((setting) => setting.batchRows)),
      ]).toEqual(tried)
    },
  )

  it('shows nothing of it where it is not asked for', async () => {
    expect((await load(shared, small.identity('float32'))).stats().autoTune).toBeNull()
  })

  it.each([
    { latencyTargetMs: 50 },
    { instanceGroup: [{ kind: 'cpu', minInstances: 1, maxInstances: 2 }] },
    { instanceGroup: [{ kind: 'cpu' }, { kind: 'cpu' }] },
  ] as const)('is refused beside what decides about the same: %j', async (options) => {
    const error = await rejectionOf(() =>
      load(shared, small.identity('float32'), { ...options, autoTune: true }),
    )
    expectRefusal(error, { code: 'ERR_MODEL_CONFIG', argument: 'autoTune' })
    expect((error as Error).message).toMatch(/beside .*decides about the same.* Remove one of them/)
  })

  it.each([
    ['autoTune.maxInstances', { maxInstances: 0 }],
    ['autoTune.maxMemoryBytes', { maxMemoryBytes: -1 }],
    ['autoTune.instances', { instances: 2 }],
    ['autoTune', 'yes'],
  ])('is refused where %s is wrong: %j', async (argument, autoTune) => {
    const error = await rejectionOf(() =>
      load(shared, small.identity('float32'), { autoTune: autoTune as never }),
    )
    expectRefusal(error, { code: 'ERR_MODEL_CONFIG', argument })
  })
})
