import { getEventListeners } from 'node:events'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { Tensor, type Feeds } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { runFixture } from '../process/child.ts'
import { findDropped } from '../support/garbage.ts'
import { load, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { outcomeOf } from './outcome.ts'
import { full } from '../support/full.ts'

const engine = sharedEngine()
const row: Feeds = { x: new Float32Array(4) }
const rows = (count: number): Feeds => ({ x: new Tensor('float32', new Float32Array(count * 4), [count, 4]) })

beforeEach(findDropped)

function warnings(): Error[] {
  const seen: Error[] = []
  const note = (warning: Error) => void seen.push(warning)
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  return seen
}

describe('a signal that outlives its requests', () => {
  it('has one listener while a split request waits, and none when that is settled', async () => {
    const model = await load(engine, small.identity('float32'), {
      maxBatchSize: 2,
      splitOversized: true,
      dynamicBatching: { holdUntilQueued: 7 },
    })
    const { signal } = new AbortController()
    const first = model.infer(rows(8), { signal })
    const second = model.infer(rows(4), { signal })
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    // Only now all may run: a worker can be done with runs this short before infer() returns.
    await Promise.all([first, second, model.infer(rows(1))])
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })

  it('has one listener while a stream runs, and none when that has ended or was left', async () => {
    const model = await load(engine, small.identity('float32'))
    const { signal } = new AbortController()
    for await (const { error } of model.inferMany(Array(100).fill(row), { signal })) {
      expect(error).toBeUndefined()
      expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    }
    for await (const { index } of model.inferMany(Array(100).fill(row), { signal })) if (index === 3) break
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })

  it('has none when it fired', async () => {
    const model = await load(engine, small.identity('float32'), {
      maxBatchSize: 2,
      splitOversized: true,
      dynamicBatching: { holdUntilQueued: 99 },
    })
    const controller = new AbortController()
    const split = outcomeOf(model.infer(rows(8), { signal: controller.signal }))
    const stream = outcomeOf(
      model
        .inferMany([row], { signal: controller.signal })
        .next()
        .then(({ value }) => Promise.reject(value!.error)),
    )
    await until(() => model.stats().pendingRequestCount === 5)
    controller.abort('withdrawn')
    expect(await Promise.all([split, stream])).toEqual(['withdrawn', 'withdrawn'])
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
  })

  it.runIf(full)('keeps no memory of them', async () => {
    const ending = await runFixture('long-lived-signal.mjs', 'split requests and streams', ['--expose-gc'])
    expect(ending).toMatchObject({ code: 0, answer: 'kept nothing', stderr: '' })
  })
})

describe('a stream that meets a full queue', () => {
  it('waits with one timer for all its items, and warns of no listeners', async () => {
    const seen = warnings()
    const model = await load(engine, small.identity('float32'), {
      maxBatchSize: 2,
      dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 1 } },
    })
    const { signal } = new AbortController()
    const indices: number[] = []
    for await (const { index } of model.inferMany(Array(300).fill(row), { maxInFlight: 100, signal }))
      indices.push(index)
    expect(indices).toEqual(Array.from({ length: 300 }, (_, at) => at))
    await new Promise(setImmediate)
    expect(seen.map(({ message }) => message)).toEqual([])
  })

  it('does not ask again before there is room', async () => {
    const model = await load(engine, small.identity('float32'), {
      dynamicBatching: { holdUntilQueued: 3, defaultQueuePolicy: { maxQueueSize: 2 } },
    })
    const results = model.inferMany(Array(50).fill(row), { maxInFlight: 50 })
    const first = results.next()
    await until(() => model.stats().rejections.queueFull === 1)
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(model.stats()).toMatchObject({ pendingRequestCount: 2, rejections: { queueFull: 1 } })
    await engine.unload(model.name) // which sends what waits
    expect((await first).value).toMatchObject({ index: 0, outputs: {} })
    await results.return()
  })

  it('ends at once when its signal fires meanwhile', async () => {
    const model = await load(engine, small.identity('float32'), {
      dynamicBatching: { holdUntilQueued: 9, defaultQueuePolicy: { maxQueueSize: 1 } },
    })
    const controller = new AbortController()
    const results = model.inferMany(Array(20).fill(row), { maxInFlight: 10, signal: controller.signal })
    const first = results.next()
    await until(() => model.stats().rejections.queueFull > 0)
    controller.abort('withdrawn')
    expect((await first).value).toEqual({ index: 0, error: 'withdrawn' })
    for (let at = 1; at < 10; at++)
      expect((await results.next()).value).toEqual({ index: at, error: 'withdrawn' })
    expect(await outcomeOf(results.next())).toBe('withdrawn')
  })
})
