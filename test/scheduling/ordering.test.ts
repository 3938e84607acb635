import { describe, expect, it } from 'vitest'
import { Tensor, type Feeds, type InferOptions, type Model, type ModelConfig } from '../../src/index.ts'
import { mulberry32 } from '../models/random.ts'
import * as small from '../models/small.ts'
import { load, ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { outcomeOf, settledCount } from './outcome.ts'

const rowsOf = (rows: number, width: number): Feeds => ({
  x: new Tensor('float32', new Float32Array(rows * width), [rows, width]),
})

/** A model with an instance on each of two workers. */
const onTwo = (path: string, config: Omit<ModelConfig, 'path'>) =>
  load(ownEngine({ cpuWorkers: 2 }), path, { instanceGroup: [{ kind: 'cpu', count: 2 }], ...config })

/** Sends all requests at once and says in which order they were settled, by index. */
async function settledOrder(model: Model, requests: readonly Feeds[]): Promise<number[]> {
  const order: number[] = []
  await Promise.all(requests.map((feeds, at) => outcomeOf(model.infer(feeds)).then(() => order.push(at))))
  return order
}

const sent = (requests: readonly unknown[]) => requests.map((_, at) => at)

describe('requests over two instances', () => {
  const random = mulberry32(8)
  const uneven = Array.from({ length: 3000 }, () => rowsOf(random() < 0.1 ? 16 : 1, 64))
  const cases: [what: string, path: string, config: Omit<ModelConfig, 'path'>, requests: Feeds[]][] = [
    ['in batches of any size', small.matmulSlow(64, 50), { maxBatchSize: 16 }, uneven],
    [
      'each a run of its own',
      small.matmulSlow(64, 50),
      { maxBatchSize: 16, dynamicBatching: { preferredBatchSize: 1 } },
      uneven,
    ],
    ['of different shapes, without a batch dimension', small.matmulSlow(64, 50), { maxBatchSize: 0 }, uneven],
  ]

  it.each(cases)(
    'are answered in their order with preserveOrdering: %s',
    async (_, path, config, requests) => {
      const model = await onTwo(path, {
        ...config,
        dynamicBatching: { ...(config.dynamicBatching as object), preserveOrdering: true },
      })
      expect(await settledOrder(model, requests)).toEqual(sent(requests))
      expect(settledCount(model)).toBe(requests.length)
    },
  )

  it.each(cases)('are answered as they are done without it: %s', async (_, path, config, requests) => {
    const order = await settledOrder(await onTwo(path, config), requests)
    expect(order).not.toEqual(sent(requests))
    expect(order.sort((a, b) => a - b)).toEqual(sent(requests))
  })

  it('keep their order when it turns out that they cannot share runs', async () => {
    const model = await onTwo(small.compress('N'), { dynamicBatching: { preserveOrdering: true } })
    const keep = new Tensor('bool', Uint8Array.of(1, 0, 1), [3])
    const requests = Array.from({ length: 40 }, () => ({ ...rowsOf(3, 4), keep }))
    expect(await settledOrder(model, requests)).toEqual(sent(requests))
  })

  it('keep their order when runs fail', async () => {
    const model = await onTwo(small.gatherRow(), {
      maxBatchSize: 8,
      dynamicBatching: { preserveOrdering: true },
      sessionOptions: { logSeverityLevel: 4 },
    })
    const requests = Array.from({ length: 400 }, (_, at) => ({
      index: BigInt64Array.of(at % 13 === 0 ? 99n : BigInt(at % 8)),
    }))
    expect(await settledOrder(model, requests)).toEqual(sent(requests))
    expect(model.stats().rejections.execution).toBe(31)
  })
})

describe('what does not come to a run', () => {
  /** One long run occupies the instance, another waits behind it; what follows waits as well. Notes how everything ends, in that order. */
  async function busy() {
    const model = await load(ownEngine(), small.matmulSlow(512, 400), {
      maxBatchSize: 64,
      dynamicBatching: {
        preserveOrdering: true,
        preferredBatchSize: 32,
        defaultQueuePolicy: { maxQueueSize: 4 },
      },
    })
    const ends: string[] = []
    const infer = (name: string, feeds: Feeds, each?: InferOptions) =>
      outcomeOf(model.infer(feeds, each)).then((outcome) => void ends.push(`${name}: ${String(outcome)}`))
    const long = [infer('first', rowsOf(32, 512)), infer('second', rowsOf(32, 512))]
    await until(() => model.stats().pendingRequestCount === 1)
    return { model, ends, infer, long }
  }

  it('is neither held back nor holds others back', async () => {
    const { ends, infer, long } = await busy()
    const controller = new AbortController()
    const waiting = [
      infer('late', rowsOf(1, 512), { timeoutMs: 1 }),
      infer('withdrawn', rowsOf(1, 512), { signal: controller.signal }),
      infer('good', rowsOf(1, 512)),
      infer('refused', rowsOf(1, 512)),
    ]
    controller.abort('aborted')
    await Promise.all([...waiting, ...long])
    expect(ends).toEqual([
      'refused: ERR_QUEUE_FULL',
      'withdrawn: aborted',
      'late: ERR_TIMEOUT',
      'first: answered',
      'second: answered',
      'good: answered',
    ])
  })

  it('is one that was withdrawn while it ran, too', async () => {
    const { model, ends, infer } = await busy()
    const controller = new AbortController()
    const others = [
      infer('withdrawn', rowsOf(64, 512), { signal: controller.signal }),
      infer('good', rowsOf(1, 512)),
    ]
    await until(() => model.stats().executionCount === 2)
    controller.abort('aborted')
    await Promise.all(others)
    expect(ends).toEqual(['first: answered', 'second: answered', 'withdrawn: aborted', 'good: answered'])
  })
})

it('an engine that is destroyed rejects all that it has, in the order in which it came', async () => {
  const engine = ownEngine({ cpuWorkers: 2 })
  const model = await load(engine, small.matmulSlow(512, 2000), {
    maxBatchSize: 8,
    instanceGroup: [{ kind: 'cpu', count: 2 }],
    dynamicBatching: { preserveOrdering: true, preferredBatchSize: 1 },
  })
  const ends: [at: number, outcome: unknown][] = []
  const all = Array.from({ length: 20 }, (_, at) =>
    outcomeOf(model.infer(rowsOf(1 + (at % 8), 512))).then((outcome) => ends.push([at, outcome])),
  )
  expect(model.stats().pendingRequestCount).toBeLessThan(20)
  await engine.destroy()
  await Promise.all(all)
  expect(ends).toEqual(Array.from({ length: 20 }, (_, at) => [at, 'ERR_CLOSED']))
})
