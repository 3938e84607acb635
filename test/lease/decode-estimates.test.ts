import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { resolveImageOptions } from '../../src/options/image-options.ts'
import { inTurn } from '../../src/features/image/decode-queue.ts'
import { imageConcurrency } from '../../src/features/image/exports.ts'
import * as rgbPipeline from '../../src/features/image/rgb-pipeline.ts'
import { ImageDecoding } from '../../src/features/leases/image-decoding.ts'
import { admissionMarginMs, estimatedAnswerMs } from '../../src/schedule/answer-estimate.ts'
import { DecodeTimes } from '../../src/features/leases/image-decoding.ts'
import { ModelCounts } from '../../src/observe/model-counts.ts'
import { PriorityLevel } from '../../src/request/infer-request.ts'
import type { Preparation, Prepared } from '../../src/request/participants.ts'
import { FakeClock } from '../fake-clock.ts'
import { seen } from '../latency/seen.ts'
import { noPolicy } from '../queue/recorder.ts'
import { until } from '../support/until.ts'

const decoder = { waiting: [] as (() => void)[] }

beforeEach(() => {
  vi.spyOn(rgbPipeline, 'decodeRgb').mockImplementation(async () => {
    await new Promise<void>((resolve) => decoder.waiting.push(resolve))
    return Buffer.alloc(12)
  })
  const before = imageConcurrency()
  imageConcurrency(1)
  onTestFinished(() => void imageConcurrency(before))
})

/** The first bytes of a PNG of so many pixels. */
function png(width: number, height: number): Buffer {
  const bytes = Buffer.alloc(24)
  bytes.write('\x89PNG\r\n\x1a\n', 'latin1')
  bytes.writeUInt32BE(width, 16)
  bytes.writeUInt32BE(height, 20)
  return bytes
}

const callLimits = { timeoutMs: 1000, timedOut: () => new Error('took too long') }

const [urgent, usual] = [1, 2].map((level) => new PriorityLevel(level, noPolicy)) as [
  PriorityLevel,
  PriorityLevel,
]

function decoding(clock: FakeClock): ImageDecoding {
  const images = new Map([['x', resolveImageOptions({ width: 2, height: 2 })]])
  const parser = { check: (_: number, { data }: { data: unknown }) => data as never }
  return new ImageDecoding({
    model: 'm',
    inputs: [{ name: 'x', shape: [1, 3, 2, 2] }],
    images,
    optionalInputs: [],
    parser,
    counts: new ModelCounts(),
    clock,
    leases: () => null,
  })
}

const nobody: Prepared = { begins: () => true, ready: () => {}, failed: () => {} }
const begin = (preparation: Preparation, level = usual) =>
  preparation.begin({ level, settled: false, data: [] }, nobody)
const ask = (of: ImageDecoding, bytes: Buffer) => of.read({ x: bytes })!.preparation

/** Has an image decoded so often that it is known how long that takes. */
async function learnWell(of: ImageDecoding, clock: FakeClock, bytes: Buffer, ms: number): Promise<void> {
  for (let decoded = 0; decoded < 5; decoded++) await learn(of, clock, bytes, ms)
}

/** Has one image decoded, in so long. */
async function learn(of: ImageDecoding, clock: FakeClock, bytes: Buffer, ms: number): Promise<void> {
  const ready = new Promise<void>((resolve) =>
    ask(of, bytes).begin({ level: usual, settled: false, data: [] }, { ...nobody, ready: () => resolve() }),
  )
  await until(() => decoder.waiting.length === 1)
  clock.advanceBy(ms)
  decoder.waiting.pop()!()
  await ready
  await new Promise(setImmediate) // its place is free again
}

describe('when an image would be decoded', () => {
  it('is unknown until one was, and then what those took that are like it, and what waits before it', async () => {
    const clock = new FakeClock()
    const model = decoding(clock)
    expect(ask(model, png(100, 100)).estimate(usual).inMs).toBe(0)
    await learnWell(model, clock, png(400, 400), 40)
    expect(model.estimate(usual, false).inMs).toBe(40) // as the last
    await learnWell(model, clock, png(100, 100), 10)
    expect(
      [png(100, 100), png(400, 400), png(50, 100)].map((each) => ask(model, each).estimate(usual).inMs),
    ).toEqual([10, 40, 0]) // none of the third was decoded, which nothing is to be refused by
    for (let count = 0; count < 3; count++) begin(ask(model, png(400, 400)))
    await until(() => decoder.waiting.length === 1)
    clock.advanceBy(15) // of the 40 of the first
    expect(ask(model, png(100, 100)).estimate(usual).inMs).toBe(25 + 2 * 40 + 10)
    expect(ask(model, png(100, 100)).estimate(urgent).inMs).toBe(25 + 10)
    imageConcurrency(2)
    await until(() => decoder.waiting.length === 2)
    expect(ask(model, png(100, 100)).estimate(usual).inMs).toBe((25 + 40 + 40) / 2 + 10)
    await drain()
  })

  it('is 0 for an idle decoder after fewer than five decodings, or when the last one is long ago', async () => {
    const clock = new FakeClock()
    const model = decoding(clock)
    const estimate = () => ask(model, png(100, 100)).estimate(usual).inMs
    await learn(model, clock, png(100, 100), 600) // the first, while much else began
    expect([estimate(), model.estimate(usual, false).inMs]).toEqual([0, 600])
    for (let slow = 0; slow < 4; slow++) await learn(model, clock, png(100, 100), 600)
    expect(estimate()).toBe(600)
    clock.advanceBy(20 * 600 + 1)
    expect([estimate(), model.estimate(usual, false).inMs]).toEqual([0, 600])
  })

  it('assumes that a late decoding takes as long again as it is late', async () => {
    const clock = new FakeClock()
    const model = decoding(clock)
    await learnWell(model, clock, png(100, 100), 10)
    begin(ask(model, png(100, 100)))
    await until(() => decoder.waiting.length === 1)
    clock.advanceBy(10)
    expect(ask(model, png(100, 100)).estimate(usual).inMs).toBe(10)
    clock.advanceBy(500)
    expect(ask(model, png(100, 100)).estimate(usual).inMs).toBe(500 + 10)
    await drain()
  })

  it('includes waiting calls of decodeImage', async () => {
    const model = decoding(new FakeClock())
    // Much longer than those of other tests, which count too.
    await inTurn(() => new Promise((resolve) => setTimeout(resolve, 300)), callLimits)
    const calls = Array.from({ length: 10 }, () => inTurn(async () => {}, callLimits))
    expect(model.estimate(usual, true).inMs).toBeGreaterThan(200)
    await Promise.all(calls)
    expect(model.estimate(usual, true).inMs).toBe(0)
  })

  it('is by the fastest where the decoder is idle, so that a slow time is found to be over', async () => {
    const clock = new FakeClock()
    const model = decoding(clock)
    await learn(model, clock, png(100, 100), 10)
    for (let slow = 0; slow < 9; slow++) await learn(model, clock, png(100, 100), 400)
    expect(ask(model, png(100, 100)).estimate(usual)).toMatchObject({ inMs: 10, isNext: true })
    begin(ask(model, png(100, 100)))
    await until(() => decoder.waiting.length === 1)
    expect(ask(model, png(100, 100)).estimate(usual)).toMatchObject({ inMs: 800, isNext: false })
    const runTimes = seen({ 1: 5 })
    const backlog = { rowsAhead: 0, batchRows: 8, joiningRowsPerMs: 0, instances: 1, freeInMs: 0, sharing: 1 }
    expect(
      estimatedAnswerMs(runTimes, '', 1, { ...backlog, ready: { inMs: 10, spreadMs: 4, isNext: true } }),
    ).toBe(15 + admissionMarginMs)
    expect(
      estimatedAnswerMs(runTimes, '', 1, { ...backlog, ready: { inMs: 800, spreadMs: 4, isNext: false } }),
    ).toBeGreaterThan(805)
    await drain()
  })

  it('waits for what is slower, the decoder or the model, and not for both', () => {
    const runTimes = seen({ 1: 5, 8: 20 })
    const backlog = {
      rowsAhead: 80,
      batchRows: 8,
      joiningRowsPerMs: 0,
      instances: 1,
      freeInMs: 0,
      sharing: 1,
    }
    const readyIn = (inMs: number) =>
      estimatedAnswerMs(runTimes, '', 1, { ...backlog, ready: { inMs, spreadMs: 0, isNext: false } })
    expect(readyIn(100)).toBe(estimatedAnswerMs(runTimes, '', 1, backlog)) // behind ten batches of 20 ms
    expect(readyIn(1000)).toBeGreaterThan(1005)
    expect(readyIn(1000)).toBeLessThan(1020)
  })

  it('does not count what was withdrawn, and of another model as much as of its own, which take turns', async () => {
    const clock = new FakeClock()
    const [model, other] = [decoding(clock), decoding(clock)]
    await learnWell(model, clock, png(100, 100), 10)
    await learnWell(other, clock, png(100, 100), 10)
    const asked = Array.from({ length: 6 }, () => ask(other, png(100, 100)))
    for (const each of asked) begin(each)
    await until(() => decoder.waiting.length === 1)
    expect(ask(model, png(100, 100)).estimate(usual).inMs).toBe(10 + 10)
    begin(ask(model, png(100, 100)))
    expect(ask(model, png(100, 100)).estimate(usual).inMs).toBe(10 + 10 + 10 + 10)
    for (const each of asked.slice(1)) each.cancel()
    expect(ask(model, png(100, 100)).estimate(usual).inMs).toBe(10 + 10 + 10)
    await drain()
  })
})

/** Lets the decoder finish what it has. */
async function drain(): Promise<void> {
  for (let idle = 0; idle < 5; idle++) {
    for (const resolve of decoder.waiting.splice(0)) {
      resolve()
      idle = 0
    }
    await new Promise(setImmediate)
  }
}

it('the time that images take is told by kind and size, and by the fastest of the first ones', () => {
  const times = new DecodeTimes()
  for (const ms of [275, 12, 14]) times.observe({ name: 'jpeg', size: 1e6 }, ms, 0)
  expect([1e6, 1e7, 1.02e6].map((size) => times.usualMs({ name: 'jpeg', size }))).toEqual([12, 12, 12])
  expect(times.usualMs({ name: 'jpeg', size: 2.5e5 })).toBeCloseTo(3)
  expect(times.usualMs({ name: 'png', size: 1e6 })).toBe(0)
  for (const ms of [14, 15, 16]) times.observe({ name: 'jpeg', size: 1e6 }, ms, 0)
  expect(times.usualMs({ name: 'jpeg', size: 1e6 })).toBe(14)
})

it('one image of few that was slow by chance says nothing of others', () => {
  const times = new DecodeTimes()
  for (let decoded = 0; decoded < 40; decoded++) times.observe({ name: 'jpeg', size: 1e4 }, 0.5, 0)
  times.observe({ name: 'jpeg', size: 1e4 }, 30, 0)
  expect(times.p99Ms(60)).toBe(60)
})
