import { queryObjects } from 'node:v8'
import { describe, expect, it } from 'vitest'
import type { InferenceError, ModelConfig } from '../../src/index.ts'
import type { InferRequest } from '../../src/request/infer-request.ts'
import type { Preparation, Prepared, ReadyEstimate } from '../../src/request/participants.ts'
import { AnswerOrder } from '../../src/schedule/answer-order.ts'
import { fate, fates, House, Served, settled } from './serving.ts'

/** An image that is decoded when a test says so. */
class Undecoded implements Preparation {
  readonly sources = new Map<number, Uint8Array>()
  #prepared: Prepared | null = null

  owned(): Preparation {
    return this
  }

  estimate(): ReadyEstimate {
    return { inMs: 0, spreadMs: 0, isNext: true }
  }

  begin(_request: unknown, prepared: Prepared): void {
    this.#prepared = prepared
  }

  cancel(): void {
    this.#prepared = null
  }

  ready(): void {
    this.#prepared?.ready(null)
  }
}

/** A model that answers in order, with a request that is not decoded yet. */
async function behindUndecoded(maxQueueSize = 4, config: Omit<ModelConfig, 'path'> = {}) {
  const house = await House.open(1)
  const model = await Served.on(house, 'm', house.places, {
    dynamicBatching: { preserveOrdering: true, defaultQueuePolicy: { maxQueueSize } },
    ...config,
  })
  const { threads } = house.places[0]!
  const finish = async () => {
    await settled()
    while (threads.current.finish()) await settled()
  }
  const image = new Undecoded()
  const undecoded = model.send(1, { preparation: image })
  return { house, model, scheduler: model.scheduler, finish, image, undecoded }
}

describe('answers that wait for one to a request that is not decoded yet', () => {
  it('count against maxQueueSize, and as waiting, until they are given', async () => {
    const { model, scheduler, finish, image, undecoded } = await behindUndecoded()
    const held = [2, 3, 4].map((value) => model.send(value))
    await finish()
    expect(await fates([undecoded, ...held])).toEqual(['waits', 'waits', 'waits', 'waits'])
    expect([scheduler.waiting, scheduler.pending, scheduler.levels.of(undefined).room]).toEqual([1, 4, 0])
    expect(await fates([model.send(5), model.send(6)])).toEqual(['ERR_QUEUE_FULL', 'ERR_QUEUE_FULL'])
    image.ready()
    await finish()
    expect(await fates([undecoded, ...held])).toEqual([2, 4, 6, 8])
    expect([scheduler.pending, scheduler.levels.of(undefined).room]).toEqual([0, 4])
    const next = model.send(7)
    await finish()
    expect(await fate(next)).toBe(14)
  })

  it('are given although their deadlines and timeouts have passed', async () => {
    const { house, model, finish, image, undecoded } = await behindUndecoded()
    const held = [model.send(2, { deadlineMs: 50 }), model.send(3, { timeoutMs: 50 })]
    await finish()
    house.clock.advanceBy(1000)
    expect(await fates(held)).toEqual(['waits', 'waits'])
    image.ready()
    await finish()
    expect(await fates([undecoded, ...held])).toEqual([2, 4, 6])
  })

  it('are dropped when they are withdrawn, and make room', async () => {
    const { model, scheduler, finish, image, undecoded } = await behindUndecoded(2)
    const controller = new AbortController()
    const withdrawn = model.send(2, { signal: controller.signal })
    await finish()
    expect(scheduler.pending).toBe(2)
    controller.abort('withdrawn')
    expect(await fate(withdrawn)).toBe('withdrawn')
    expect([scheduler.pending, scheduler.levels.of(undefined).room]).toEqual([1, 1])
    const held = model.send(3)
    await finish()
    expect(await fate(held)).toBe('waits')
    image.ready()
    await finish()
    expect(await fates([undecoded, held])).toEqual([2, 6])
    const { rejections, inferenceStats } = scheduler.counts.snapshot(0)
    expect([rejections.cancelled, inferenceStats.success.count]).toEqual([1, 2])
  })

  it('are given when it is rejected', async () => {
    const { model, scheduler, finish, undecoded } = await behindUndecoded()
    const held = model.send(2)
    await finish()
    scheduler.rejectWaiting()
    expect(await fates([undecoded, held])).toEqual(['ERR_CLOSED', 4])
    expect([scheduler.pending, scheduler.levels.of(undefined).waiting]).toEqual([0, 0])
  })

  it('are rejected in their order when all is, also where a later request runs', async () => {
    const { model, scheduler, undecoded } = await behindUndecoded()
    const running = model.send(2)
    await settled()
    const ends: number[] = []
    for (const [at, { answer }] of [undecoded, running].entries()) answer.catch(() => ends.push(at))
    scheduler.destroy()
    await settled()
    expect(ends).toEqual([0, 1])
  })

  it('are estimated for when it will be ready', async () => {
    const { model, scheduler, finish, image, undecoded } = await behindUndecoded()
    const all: ReadyEstimate = { inMs: 300, spreadMs: 0, isNext: false }
    scheduler.decoding = { estimate: () => ({ ...all, inMs: 0 }), estimateAll: () => all }
    const late = model.send(2, { deadlineMs: 250 })
    const inTime = model.send(3, { deadlineMs: 2000 })
    await finish()
    const error = await late.answer.catch((reason: InferenceError) => reason)
    expect(error).toMatchObject({ code: 'ERR_DEADLINE', expected: 'an answer within 250 ms' })
    expect((error as InferenceError).estimatedMs).toBeGreaterThanOrEqual(300)
    expect([scheduler.estimatedMs, scheduler.estimatedAnswerMs('', 1)].every((ms) => ms >= 300)).toBe(true)
    const more = [4, 5].map((value) => model.send(value))
    image.ready()
    await finish()
    expect(await fates([undecoded, inTime, ...more])).toEqual([2, 6, 8, 10])
    expect(scheduler.estimatedAnswerMs('', 1)).toBeLessThan(300)
  })

  it('are estimated by their own runs where answers have no order', async () => {
    const { model, scheduler, finish } = await behindUndecoded(4, { dynamicBatching: {} })
    const all: ReadyEstimate = { inMs: 300, spreadMs: 0, isNext: false }
    scheduler.decoding = { estimate: () => all, estimateAll: () => all }
    const tensor = model.send(2, { deadlineMs: 250 })
    await finish()
    expect(await fate(tensor)).toBe(4)
    expect(scheduler.pending).toBe(1)
  })
})

describe('the order of answers', () => {
  it('keeps nothing of requests that were withdrawn, however long those before them take', () => {
    class Withdrawn {
      settled = false
      readonly level = level
    }
    const level = { waiting: 0 }
    const order = new AnswerOrder()
    order.accept({ settled: false, level } as InferRequest)
    for (let count = 0; count < 1000; count++) {
      const request = new Withdrawn() as InferRequest
      order.accept(request)
      order.ended(request, { answer: {}, count: () => {} })
      request.settled = true
      order.left(request)
    }
    expect([order.held, level.waiting]).toEqual([0, 0])
    expect(queryObjects(Withdrawn, { format: 'count' })).toBeLessThan(5)
  })
})

describe('a deadline that passes in the queue', () => {
  it('is named without the error of the clock', async () => {
    const house = await House.open(1)
    const { threads } = house.places[0]!
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 1 })
    house.clock.advanceBy(0.7)
    const sent = [1, 2, 3].map((value) => model.send(value, { deadlineMs: value === 3 ? 2000 : 0 }))
    await settled()
    threads.current.claim()
    house.clock.advanceBy(2001)
    const error = await sent[2]!.answer.catch((reason: InferenceError) => reason)
    expect(error).toMatchObject({ code: 'ERR_DEADLINE', expected: 'an answer within 2000 ms' })
    while (threads.current.finish());
  })
})
