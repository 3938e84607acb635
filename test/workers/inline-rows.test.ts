import { expect, it, vi } from 'vitest'
import { KeepAlive } from '../../src/base/clock.ts'
import type { ModelConfig } from '../../src/index.ts'
import { noOptions } from '../../src/options/infer-options.ts'
import { resolveConfig } from '../../src/options/model-config.ts'
import { ModelInstance, type PreparedBatch } from '../../src/run/model-instance.ts'
import { InferRequest } from '../../src/request/infer-request.ts'
import { RunTimes } from '../../src/schedule/estimates.ts'
import { Joining } from '../../src/schedule/joining.ts'
import { ObservedRequests } from '../../src/schedule/observed-requests.ts'
import { Scheduler } from '../../src/schedule/scheduler.ts'
import { FakeClock } from '../fake-clock.ts'

const nothing = (): void => {}
const proof = { rows: 'independent', node: null, reason: 'proved' } as const

/** The queue of a model with rows of `width` elements. A run of 32 rows takes 0.1 ms; one of 64 takes `ms64`, or was never run if that is 0. */
function queued({ config = {}, width = 4, type = 'float32', isProved = true, ms64 = 0 } = {}) {
  const resolved = resolveConfig('m', { path: 'm.onnx', checkRows: false, ...config } as ModelConfig)
  const value = (name: string) => ({ name, type: type as 'float32', shape: ['N', width] })
  const joining = new Joining(
    'm',
    resolved,
    { inputs: [value('x')], outputs: [value('y')], properties: null, unservableOutputs: [], executionProviders: [] },
    isProved ? { proof } : {},
  ) // prettier-ignore
  const runTimes = new RunTimes()
  for (let run = 0; run < 20; run++) {
    if (ms64 > 0) runTimes.observe('', 64, ms64)
    runTimes.observe('', 32, 0.1)
  }
  const observed = new ObservedRequests({ name: 'm', version: 1, metadata: joining.stacked, batching: null })
  const scheduler = new Scheduler({
    joining, observed, rowCheck: null, padding: null, costs: null, config: resolved, runTimes, instances: 1,
    clock: new FakeClock(1000), keepAlive: new KeepAlive(), gaveUp: nothing,
  }) // prettier-ignore
  const data = [type === 'string' ? Array<string>(width).fill('') : new Float32Array(width)]
  const feeds = { rows: 1, bucketKey: '', whole: false, data, dims: null }
  const level = scheduler.levels.of(undefined)
  const submit = (count: number) => {
    for (let left = count; left > 0; left--)
      scheduler.submit(new InferRequest(feeds, level, noOptions, nothing, nothing), noOptions)
  }
  /** Rows of the batch that is formed of 300 requests when runs of up to `mostMs` may be inline. */
  const rows = (mostMs: number, besideRows = Infinity): number => {
    submit(300)
    scheduler.chooseRows(mostMs, besideRows, true)
    const batch = scheduler.nextBatch(true, 0)!
    scheduler.rejectWaiting()
    return batch.requests.length
  }
  return { rows, submit, scheduler, joining }
}

it('are twice, four times or eight times as many as soon as so many times the time of 32 is short enough', () => {
  const { rows } = queued()
  expect([0.2, 0.19, 0.2, 0, 0.39, 0.4, 0.8, 10].map((ms) => rows(ms))).toEqual([
    64, 32, 64, 32, 64, 128, 256, 256,
  ])
})

it('are 32 where 64 were seen to take longer than allowed, but for one try of 64', () => {
  const { rows } = queued({ ms64: 0.3 })
  const sizes = Array.from({ length: 128 }, () => rows(0.2))
  expect(sizes.flatMap((size, at) => (size === 32 ? [] : [[at, size]]))).toEqual([
    [63, 64],
    [127, 64],
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
  const executor = { defineSlot: nothing, defineLayout: nothing }
  const acquire = (byteLength: number) => ({ bytes: new ArrayBuffer(byteLength), byteLength, memory: {} })
  let slots = 0
  const instance = new ModelInstance({
    scheduler,
    name: 'm_0',
    session: {
      id: 1,
      ready: true,
      worker: { offer: nothing, threads: { executor } },
      threadChoice: null,
    } as never,
    weight: 1,
    source: { nextSlotId: () => slots++, acquire, movesFromBytes: Infinity } as never,
  })
  scheduler.instances.add(instance)
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
  vi.spyOn(scheduler, 'finished').mockImplementation(nothing)
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
