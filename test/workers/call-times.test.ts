import { expect, it } from 'vitest'
import { noOptions } from '../../src/options/infer-options.ts'
import { InferRequest } from '../../src/request/infer-request.ts'
import type { SubmitOptions } from '../../src/schedule/scheduler.ts'
import { House, Served, settled } from './serving.ts'

const nothing = (): void => {}

/** A model, and calls of it in one turn of the event loop. */
async function called(config: Parameters<typeof Served.on>[3] = {}) {
  const house = await House.open(1)
  const { scheduler } = await Served.on(house, 'm', house.places, { maxBatchSize: 1024, ...config })
  const { current } = house.places[0]!.threads
  /** Makes `times` calls, `everyMs` apart; returns when each was said to have come, in microseconds after the first. */
  const call = (times: number, everyMs: number, options: SubmitOptions = noOptions): number[] => {
    const sinceMs = house.clock.nowMs()
    const came: number[] = []
    for (let time = 0; time < times; time++) {
      const feeds = { rows: 1, bucketKey: '4,;', whole: false, data: [new Float32Array(4)], dims: [[1, 4]] }
      const request = new InferRequest(feeds, scheduler.levels.of(undefined), noOptions, nothing, nothing)
      scheduler.submit(request, options)
      came.push(Math.round((request.enqueuedAtMs - sinceMs) * 1000))
      house.clock.advanceBy(everyMs)
    }
    return came
  }
  return {
    call,
    answer: () => current.finish(),
    offerSoon: () => scheduler.instances.offerSoon(),
    later: (ms: number) => house.clock.advanceBy(ms),
  }
}

it('are read from the clock for every eighth call of a turn, once calls follow quickly', async () => {
  const { call } = await called()
  expect(call(19, 0.01)).toEqual([0, ...Array(8).fill(10), ...Array(8).fill(90), 170, 170])
})

it('are read for each call where callers compute between calls', async () => {
  const { call } = await called()
  expect(call(4, 0.2)).toEqual([0, 200, 400, 600])
})

it('are read again in the next turn, and after each answer', async () => {
  const { call, answer, later } = await called()
  expect(call(3, 0.01)).toEqual([0, 10, 10])
  await settled()
  expect(call(3, 0.01)).toEqual([0, 10, 10])
  answer()
  later(5)
  expect(call(1, 0.01)).toEqual([0])
})

it('are read again when something else than a call began the turn', async () => {
  const { call, offerSoon, later } = await called()
  expect(call(3, 0.01)).toEqual([0, 10, 10])
  await settled()
  later(5)
  offerSoon()
  later(5)
  expect(call(1, 0.01)).toEqual([0])
})

it.each([
  ['the call has a timeout', {}, { timeoutMs: 100 }],
  ['the model has a timeout', { dynamicBatching: { defaultQueuePolicy: { defaultTimeoutMs: 1000 } } }, {}],
  ['the model has a latency target', { latencyTargetMs: 1000 }, {}],
  ['batches wait for more', { dynamicBatching: { maxQueueDelayMs: 100 } }, {}],
])('are read for each call where %s', async (_, config, options) => {
  const { call } = await called(config as Parameters<typeof called>[0])
  const given = 'timeoutMs' in options ? { ...noOptions, ...options } : noOptions
  expect(call(4, 0.01, given)).toEqual([0, 10, 20, 30])
})
