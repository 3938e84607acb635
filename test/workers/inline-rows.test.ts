import { expect, it, vi } from 'vitest'
import type { PreparedBatch } from '../../src/run/model-instance.ts'
import { instanceOf, queued } from './queued-model.ts'

it('are twice, four times or eight times as many as soon as so many times the time of 32 is short enough', () => {
  const { rows } = queued()
  expect([0.2, 0.19, 0.2, 0, 0.39, 0.4, 0.8, 10].map((ms) => rows(ms))).toEqual([
    64, 32, 64, 32, 64, 128, 256, 256,
  ])
})

it('are 32 where 64 were seen to take longer than allowed, but for one try of 64 in 512 batches', () => {
  const { rows } = queued({ ms64: 0.3 })
  const sizes = Array.from({ length: 1024 }, () => rows(0.2))
  expect(sizes.flatMap((size, at) => (size === 32 ? [] : [[at, size]]))).toEqual([
    [511, 64],
    [1023, 64],
  ])
})

it.each([
  [0, 128],
  [83, 128],
  [84, 256],
])(
  'are two thirds of all at most on the worker: beside %i and with 300 that wait, %i',
  (besideRows, expected) => {
    expect(queued().rows(10, besideRows)).toBe(expected)
  },
)

it('are as many as fit into 256 MiB', () => {
  expect(queued({ width: 2 ** 18 }).rows(10)).toBe(128)
})

it.each([
  ['maxBatchSize is given', { config: { maxBatchSize: 32 } }],
  ['defaultMaxBatchSize is given', { config: { defaultMaxBatchSize: 32 } }],
  ['rows are not proved independent', { config: { maxBatchSize: 32 }, isProved: false }],
  ['64 rows would take more than 256 MiB', { width: 2 ** 20 }],
  ['inputs go by message', { type: 'string' }],
  ['runs may have to be stopped', { config: { maxRunMs: 1000 } }],
  ['sizes are preferred', { config: { dynamicBatching: { preferredBatchSize: [32] } } }],
  ['a latency is aimed at', { config: { latencyTargetMs: 1000 } }],
])('are never more than 32 where %s', (_, of) => {
  expect(queued(of).rows(1)).toBeLessThanOrEqual(32)
})

it('are never more than 32 once rows turn out to depend on each other, or are leased', () => {
  const { rows, scheduler, joining } = queued()
  expect(rows(0.2)).toBe(64)
  scheduler.instances.rowBlocks = {} as never
  expect(rows(1)).toBe(32)
  scheduler.instances.rowBlocks = null
  expect(rows(0.2)).toBe(64)
  joining.onChange = () => scheduler.rejoin()
  joining.refuted('y')
  expect(rows(1)).toBe(1)
})

/** An instance of such a model whose runs a test ends, in the state in which its worker asks it for batches. */
function served(present: 'here' | 'elsewhere' | null) {
  const { scheduler, submit } = queued()
  const instance = instanceOf(scheduler)
  instance.runPlace.present = present
  const next = (idle: boolean): number => {
    const before = instance.batches
    instance.chooseRows(10, idle)
    instance.nextBatch(idle, idle ? 0 : 1)
    return instance.batches.find((batch) => !before.includes(batch))?.requests.length ?? 0
  }
  return { scheduler, instance, submit, next }
}

it.each([
  [64, 32, 32],
  [96, 64, 32],
  [128, 64, 64],
  [250, 128, 64],
  [500, 256, 128],
])('of %i requests %i go to the worker, and %i are prefetched', (callers, first, second) => {
  const { submit, next } = served('elsewhere')
  submit(callers)
  expect([next(true), next(false)]).toEqual([first, second])
})

it('of 96 requests all are inline, and what waits behind another run is prefetched', () => {
  const { submit, next } = served('here')
  submit(96)
  expect(next(true)).toBe(96)
  submit(40)
  expect([next(false), next(false)]).toEqual([32, 0])
})

it('count rows that the worker has: with 64 of them the next batch is larger than by itself', () => {
  const { submit, next } = served('elsewhere')
  submit(90)
  expect(next(true)).toBe(32)
  submit(70)
  expect(next(false)).toBe(64)
})

it('are divided by where all runs are, as long as there is one instance', () => {
  const { scheduler, instance, submit } = served('elsewhere')
  const told: unknown[] = []
  vi.spyOn(scheduler.times, 'runPlace', 'set').mockImplementation((place) => void told.push(place))
  vi.spyOn(scheduler, 'finished').mockImplementation(() => {})
  const run = () => {
    submit(1)
    const { slotId } = instance.nextBatch(true, 0) as PreparedBatch
    instance.finished(slotId, { startMs: 0, inferStartMs: 0, inferEndMs: 1, endMs: 1 }, null, null)
  }
  run()
  scheduler.instances.add(served(null).instance)
  run()
  expect(told).toEqual(['elsewhere', null])
})
