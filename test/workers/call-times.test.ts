import { expect, it } from 'vitest'
import { noOptions } from '../../src/options/infer-options.ts'
import { InferRequest } from '../../src/request/infer-request.ts'
import type { SubmitOptions } from '../../src/schedule/scheduler.ts'
import { House, Served, settled } from './serving.ts'

const nothing = (): void => {}

/** A model, and calls of it a millisecond after each other in one turn of the event loop. */
async function called(config: Parameters<typeof Served.on>[3] = {}) {
  const house = await House.open(1)
  const { scheduler } = await Served.on(house, 'm', house.places, { maxBatchSize: 1024, ...config })
  const { current } = house.places[0]!.threads
  /** Calls so many times; returns by how many milliseconds each was said to have come after the first reading of the clock. */
  const call = (times: number, options: SubmitOptions = noOptions): number[] => {
    const sinceMs = house.clock.nowMs()
    const came: number[] = []
    for (let time = 0; time < times; time++) {
      const feeds = { rows: 1, bucketKey: '4,;', whole: false, data: [new Float32Array(4)], dims: [[1, 4]] }
      const request = new InferRequest(feeds, scheduler.levels.of(undefined), noOptions, nothing, nothing)
      scheduler.submit(request, options)
      came.push(request.enqueuedAtMs - sinceMs)
      house.clock.advanceBy(1)
    }
    return came
  }
  return { call, answer: () => current.finish() }
}

it('are read from the clock for every eighth call of a turn, where statistics alone need them', async () => {
  const { call } = await called()
  expect(call(18)).toEqual([...Array(8).fill(0), ...Array(8).fill(8), 16, 16])
})

it('are read again in the next turn, and after each answer', async () => {
  const { call, answer } = await called()
  expect(call(2)).toEqual([0, 0])
  await settled()
  expect(call(2)).toEqual([0, 0])
  answer()
  expect(call(2)).toEqual([0, 0])
})

it.each([
  ['the call has a timeout', {}, { timeoutMs: 100 }],
  ['the model has a timeout', { dynamicBatching: { defaultQueuePolicy: { defaultTimeoutMs: 1000 } } }, {}],
  ['the model has a latency target', { latencyTargetMs: 1000 }, {}],
  ['batches wait for more', { dynamicBatching: { maxQueueDelayMs: 100 } }, {}],
])('are read for each call where %s', async (_, config, options) => {
  const { call } = await called(config as Parameters<typeof called>[0])
  expect(call(5, 'timeoutMs' in options ? { ...noOptions, ...options } : noOptions)).toEqual([0, 1, 2, 3, 4])
})
