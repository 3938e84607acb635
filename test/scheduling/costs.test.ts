import { describe, expect, it } from 'vitest'
import type { DynamicBatchingConfig, ModelConfig } from '../../src/index.ts'
import { expectRefusal, rejectionOf, type Refusal } from '../abuse/refusal.ts'
import { maskedSequence } from '../models/scheduling.ts'
import { load, sharedEngine } from '../support/open.ts'
import { feedsOf, runPlain, type Samples } from '../support/plain.ts'
import { expectClose } from '../support/same.ts'
import { noise } from '../support/samples.ts'
import { outcomeOf, reported } from './outcome.ts'

const engine = sharedEngine()

const request = (length: number, rows = 1): Samples => ({
  x: noise([rows, length, 4]),
  mask: { type: 'int64', dims: [rows, length], data: new BigInt64Array(rows * length).fill(1n) },
})

const byLength = { input: 'x', dim: 1 }

function paddedTo(sizes: readonly number[] | 'longest'): Partial<ModelConfig> {
  return {
    padding: [
      { input: 'x', dim: 1, sizes, outputs: [{ name: 'positions', dim: 1 }] },
      { input: 'mask', dim: 1, sizes },
    ],
  }
}

const open = (dynamicBatching: DynamicBatchingConfig, config: Partial<ModelConfig> = paddedTo('longest')) =>
  load(engine, maskedSequence('int64'), { maxBatchSize: 16, ...config, dynamicBatching } as ModelConfig)

/** Sends requests of these lengths, which are answered as they are alone; lengths by their batch, in the order of the batches. */
async function batchesOf(
  model: Awaited<ReturnType<typeof open>>,
  lengths: readonly number[],
): Promise<number[][]> {
  const requests = lengths.map((length) => request(length))
  const answers = await Promise.all(requests.map((samples) => reported(model, feedsOf(samples))))
  for (const [at, { outputs }] of answers.entries())
    expectClose(outputs, await runPlain(model.metadata.path, requests[at]!))
  const batches = new Map<number, number[]>()
  for (const [at, { report }] of answers.entries())
    batches.set(report.batchId, [...(batches.get(report.batchId) ?? []), lengths[at]!])
  return [...batches].sort(([a], [b]) => a - b).map(([, batch]) => batch)
}

describe('a model that says what its requests cost', () => {
  it('runs those of about the same length together, within the budget', async () => {
    const model = await open({ cost: byLength, maxBatchCost: 60, holdUntilQueued: 7 })
    expect(await batchesOf(model, [20, 3, 19, 20, 3, 50, 20])).toEqual([[20, 20, 20], [3, 3], [19], [50]])
    const { padding, batchReasons } = model.stats()
    expect(padding.wasteShare).toBeLessThan(0.01)
    expect(batchReasons).toMatchObject({ cost: 2, full: 0 })
  })

  it('runs a request by itself that is dearer than the budget, or refuses it', async () => {
    const alone = await open({ cost: byLength, maxBatchCost: 10, holdUntilQueued: 3 })
    expect(await batchesOf(alone, [30, 5, 5])).toEqual([[30], [5, 5]])
    const strict = await open({ cost: byLength, maxBatchCost: 10, overCostAction: 'REJECT' })
    const refused = await rejectionOf(() => strict.infer(feedsOf(request(3, 4)), { requestId: 'dear' }))
    expectRefusal(refused, {
      code: 'ERR_INVALID_ARG',
      argument: 'feeds',
      expected: /at most 10 \(dynamicBatching\.maxBatchCost\)/,
      received: 12,
    })
    expect(refused).toMatchObject({ requestId: 'dear' })
    expect(await outcomeOf(strict.infer(feedsOf(request(3, 3))))).toBe('answered')
    expect(strict.stats()).toMatchObject({
      refusals: { invalid: 1 },
      inferenceStats: { success: { count: 1 } },
    })
  })

  it('counts what padding to a size makes of a length', async () => {
    const model = await open({ cost: byLength, maxBatchCost: 32, holdUntilQueued: 3 }, paddedTo([16, 64]))
    expect(await batchesOf(model, [5, 9, 5])).toEqual([[5, 9], [5]])
  })

  it('may say it by a function, of all that a request has', async () => {
    const seen: unknown[] = []
    const cost: DynamicBatchingConfig['cost'] = ({ rows, inputs }) => {
      seen.push([
        rows,
        Object.keys(inputs),
        inputs['x']!.dims,
        inputs['mask']!.type,
        (inputs['mask']!.data as BigInt64Array).length,
      ])
      return rows * inputs['x']!.dims[1]!
    }
    const model = await open({ cost, maxBatchCost: 20, holdUntilQueued: 3 })
    expect(await batchesOf(model, [10, 10, 10])).toEqual([[10, 10], [10]])
    expect(seen).toEqual(Array.from({ length: 3 }, () => [1, ['x', 'mask'], [1, 10, 4], 'int64', 10]))
  })

  it('runs a request by itself of which its function says that it costs more than anything', async () => {
    const model = await open({
      cost: ({ inputs }) => (inputs['x']!.dims[1]! > 5 ? Number.MAX_VALUE : 1),
      maxBatchCost: 100,
      holdUntilQueued: 4,
    })
    expect(await batchesOf(model, [3, 3, 9, 9])).toEqual([[3, 3], [9], [9]])
  })

  it('refuses a request of which its function makes nothing', async () => {
    const costs = [
      () => NaN,
      () => -1,
      () => 'much' as unknown as number,
      () => {
        throw new Error('no idea')
      },
      (async () => {
        throw new Error('not now')
      }) as never,
    ]
    for (const cost of costs) {
      const refused = await rejectionOf(async () => (await open({ cost })).infer(feedsOf(request(3))))
      expectRefusal(refused, { code: 'ERR_INVALID_ARG', argument: 'dynamicBatching.cost' })
    }
  })

  it('counts each part of a request that is split', async () => {
    const model = await open(
      { cost: byLength, maxBatchCost: 1000 },
      { ...paddedTo('longest'), maxBatchSize: 4, splitOversized: true },
    )
    const samples = request(5, 10)
    expectClose(
      (await reported(model, feedsOf(samples))).outputs,
      await runPlain(model.metadata.path, samples),
    )
  })

  it('answers in the order of the calls where that is asked for', async () => {
    const model = await open({ cost: byLength, preserveOrdering: true, holdUntilQueued: 5 })
    const order: number[] = []
    const lengths = [9, 2, 9, 2, 9]
    await Promise.all(
      lengths.map((length, at) => model.infer(feedsOf(request(length))).then(() => order.push(at))),
    )
    expect(order).toEqual([0, 1, 2, 3, 4])
    expect(model.stats().executionCount).toBe(2)
  })
})

const cases: [what: string, batching: unknown, refusal: Refusal][] = [
  [
    'a budget without a cost',
    { maxBatchCost: 5 },
    { argument: 'dynamicBatching.maxBatchCost', expected: /dynamicBatching\.cost beside it/, received: 5 },
  ],
  [
    'an action without a budget',
    { cost: byLength, overCostAction: 'REJECT' },
    { argument: 'dynamicBatching.overCostAction', expected: /maxBatchCost beside it/ },
  ],
  [
    'an action of another name',
    { cost: byLength, maxBatchCost: 1, overCostAction: 'SPLIT' },
    { argument: 'dynamicBatching.overCostAction', received: 'SPLIT' },
  ],
  [
    'a budget of 0',
    { cost: byLength, maxBatchCost: 0 },
    { argument: 'dynamicBatching.maxBatchCost', received: 0 },
  ],
  [
    'a budget without an end',
    { cost: byLength, maxBatchCost: Infinity },
    { argument: 'dynamicBatching.maxBatchCost', received: Infinity },
  ],
  [
    'more padding than there is',
    { cost: byLength, maxPaddingShare: 1.5 },
    { argument: 'dynamicBatching.maxPaddingShare', received: 1.5 },
  ],
  [
    'the batch dimension',
    { cost: { input: 'x', dim: 0 } },
    { argument: 'dynamicBatching.cost.dim', received: 0 },
  ],
  [
    'an input that there is not',
    { cost: { input: 'ids', dim: 1 } },
    { argument: 'dynamicBatching.cost.input', expected: /one of 'x', 'mask'/, received: 'ids' },
  ],
  [
    'a dimension that is fixed',
    { cost: { input: 'x', dim: 2 } },
    { argument: 'dynamicBatching.cost.dim', expected: /variable dimension of 'x'/, received: 2 },
  ],
  ['what is no cost', { cost: 5 }, { argument: 'dynamicBatching.cost' }],
]

describe('a configuration is refused', () => {
  it.each(cases)('with %s', async (_, batching, refusal) => {
    const found = await rejectionOf(() => open(batching as DynamicBatchingConfig))
    expectRefusal(found, { code: 'ERR_MODEL_CONFIG', ...refusal })
  })

  it('with a cost beside sequences', async () => {
    const sequence = { state: [{ input: 'x', output: 'positions' }] }
    const found = await rejectionOf(() => open({ cost: byLength }, { sequence }))
    expectRefusal(found, {
      code: 'ERR_MODEL_CONFIG',
      argument: 'dynamicBatching.cost',
      expected: /sequences/,
    })
  })
})
