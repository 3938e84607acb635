import { setImmediate as nextTurn } from 'node:timers/promises'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import * as decodingImages from '../../src/features/image/decode-image.ts'
import { imageConcurrency } from '../../src/features/image/exports.ts'
import * as rgbPipeline from '../../src/features/image/rgb-pipeline.ts'
import { ImageDecoding } from '../../src/features/leases/image-decoding.ts'
import { resolveImageOptions } from '../../src/options/image-options.ts'
import { PriorityLevel } from '../../src/request/infer-request.ts'
import { FakeClock } from '../fake-clock.ts'
import type { ModelOptions } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { outcomeOf } from '../scheduling/outcome.ts'

/** Which images were decoded, in that order, and what lets them through. */
const decoder = { begun: [] as number[], gates: new Map<number, () => void>(), isHeld: false }

const engine = sharedEngine()
const image = (which: number) => ({ x: Buffer.from([0xff, 0xd8, 0xff, which]) })
const pixels = (value: number) => ({ x: new Float32Array(12).fill(value) })
const declared = (config: ModelOptions = {}, of = engine) =>
  load(of, small.identity('float32', [3, 2, 2]), {
    maxBatchSize: 4,
    inputs: [{ name: 'x', image: {} }],
    ...config,
  })
const release = (...which: number[]) => {
  for (const each of which) decoder.gates.get(each)!()
}
/** Lets each one through as it comes. */
const releaseAll = () => {
  decoder.isHeld = false
  for (const open of decoder.gates.values()) open()
}
const first = async (answer: Promise<{ [name: string]: unknown }>) =>
  ((await answer)['y'] as { data: Float32Array }).data[0]

beforeEach(() => {
  vi.spyOn(decodingImages, 'warmDecoder').mockResolvedValue()
  vi.spyOn(rgbPipeline, 'decodeRgb').mockImplementation(async (source, { width, height }) => {
    const which = (source as Uint8Array)[3]!
    decoder.begun.push(which)
    if (decoder.isHeld) await new Promise<void>((resolve) => decoder.gates.set(which, resolve))
    if (which === 99) throw Object.assign(new Error('no image'), { code: 'ERR_IMAGE_DECODE' })
    return Buffer.alloc(3 * width * height, which)
  })
  decoder.begun.length = 0
  decoder.gates.clear()
  decoder.isHeld = true
  const before = imageConcurrency()
  imageConcurrency(1)
  onTestFinished(() => {
    releaseAll()
    imageConcurrency(before)
  })
})

describe('a request with an encoded image', () => {
  it('has its place in the queue before it is decoded, where it counts like any other', async () => {
    const model = await declared({ dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 3 } } })
    const outcomes = [1, 2, 3, 4, 5].map((which) => outcomeOf(model.infer(image(which))))
    expect(await Promise.all(outcomes.slice(3))).toEqual(['ERR_QUEUE_FULL', 'ERR_QUEUE_FULL'])
    expect(model.capacity()).toMatchObject({ waiting: 3, free: 0, running: 0 })
    expect([model.stats().pendingRequestCount, decoder.begun]).toEqual([3, [1]])
    expect(await outcomeOf(model.infer(pixels(1)))).toBe('ERR_QUEUE_FULL')
    releaseAll()
    expect(await Promise.all(outcomes.slice(0, 3))).toEqual(['answered', 'answered', 'answered'])
    expect(decoder.begun).toEqual([1, 2, 3])
    expect(model.capacity()).toMatchObject({ waiting: 0, free: 3 })
  })

  it('is estimated with the decoder, and what waits for it', async () => {
    const model = await declared()
    decoder.isHeld = false
    for (let count = 0; count < 3; count++) await model.infer(image(1))
    const tensorMs = model.capacity().estimatedMs
    decoder.isHeld = true
    const busy = Array.from({ length: 4 }, (_, at) => model.infer(image(10 + at)))
    expect(model.capacity().estimatedMs).toBeGreaterThan(tensorMs)
    releaseAll()
    await Promise.all(busy)
  })

  it('is never decoded once it was withdrawn, has expired or was rejected with its model', async () => {
    const own = ownEngine()
    const model = await declared({}, own)
    const controller = new AbortController()
    const held = outcomeOf(model.infer(image(1)))
    const gone = [{ signal: controller.signal }, { timeoutMs: 1 }, { deadlineMs: 1 }].map((options, at) =>
      outcomeOf(model.infer(image(2 + at), options)),
    )
    controller.abort('withdrawn')
    expect(await Promise.all(gone)).toEqual(['withdrawn', 'ERR_TIMEOUT', 'ERR_DEADLINE'])
    const left = outcomeOf(model.infer(image(5)))
    await own.destroy()
    expect(await Promise.all([held, left])).toEqual(['ERR_CLOSED', 'ERR_CLOSED'])
    releaseAll()
    await nextTurn()
    expect(decoder.begun).toEqual([1])
  })

  it('keeps a model open that takes no more, until it is answered', async () => {
    const model = await declared()
    const answer = first(model.infer(image(7)))
    const unloaded = model.unload()
    releaseAll()
    expect(await answer).toBe(7)
    await unloaded
  })

  it('is decoded before those of less urgent levels, and after those that came before it', async () => {
    const model = await declared({ dynamicBatching: { priorityLevels: 2, defaultPriorityLevel: 2 } })
    const answers = [
      [1, 2],
      [2, 2],
      [3, 1],
      [4, 2],
      [5, 1],
    ].map(([which, priority]) => model.infer(image(which!), { priority: priority! }))
    releaseAll()
    await Promise.all(answers)
    expect(decoder.begun).toEqual([1, 3, 5, 2, 4])
  })

  it('takes turns with those of another model, however many of that wait', async () => {
    const [one, other] = [await declared(), await declared()]
    const answers = [1, 2, 3, 4].map((which) => one.infer(image(which)))
    answers.push(other.infer(image(11)), other.infer(image(12)))
    releaseAll()
    await Promise.all(answers)
    expect(decoder.begun).toEqual([1, 11, 2, 12, 3, 4])
  })

  it('keeps nothing waiting that is ready', async () => {
    const model = await declared()
    const undecoded = first(model.infer(image(1)))
    expect(await first(model.infer(pixels(5)))).toBe(5)
    expect(model.capacity().waiting).toBe(1)
    releaseAll()
    expect(await undecoded).toBe(1)
  })

  it('has those answered after it that came after it where answers are in order', async () => {
    const model = await declared({ dynamicBatching: { preserveOrdering: true } })
    const ends: number[] = []
    const answers = [model.infer(image(1)), model.infer(pixels(5))].map(
      async (answer) => void ends.push((await first(answer))!),
    )
    await until(() => model.stats().executionCount === 1)
    expect(ends).toEqual([])
    releaseAll()
    await Promise.all(answers)
    expect(ends).toEqual([1, 5])
  })

  it('runs in the order of arrival with others that were decoded before it', async () => {
    imageConcurrency(2)
    const model = await declared({ dynamicBatching: { holdUntilQueued: 3 } })
    const answers = [image(1), image(2), pixels(3)].map((feeds) => model.infer(feeds, { report: true }))
    release(2)
    await until(() => decoder.begun.length === 2)
    release(1)
    expect((await Promise.all(answers)).map(({ report }) => report.position)).toEqual([0, 1, 2])
  })

  it('fails alone where it is no image, and counts as rejected', async () => {
    decoder.isHeld = false
    const model = await declared()
    await expect(model.infer(image(99))).rejects.toThrow('no image')
    expect(await outcomeOf(model.infer({ x: Buffer.from('no image') }))).toBe('ERR_IMAGE_DECODE')
    expect(await first(model.infer(image(1)))).toBe(1)
    expect([model.stats().pendingRequestCount, model.stats().refusals.imageDecode, decoder.begun]).toEqual([
      0,
      1,
      [99, 1],
    ])
  })

  it('of several images leaves the line when one of them is none', async () => {
    const model = await load(engine, small.raised([3, 2, 2]), {
      maxBatchSize: 4,
      inputs: [{ name: 'x', image: {} }, { name: 'by' }],
    })
    const by = Float32Array.of(2)
    const refused = model.infer({ ...image(99), by })
    const answer = first(model.infer({ ...image(3), by }))
    releaseAll()
    await expect(refused).rejects.toThrow('no image')
    expect(await answer).toBe(5)
  })

  it('is decoded once for all that ask the same, and not at all for an answer that was kept', async () => {
    const model = await declared({ responseCache: true })
    const answers = [1, 1, 2, 1].map((which) => first(model.infer(image(which))))
    releaseAll()
    expect(await Promise.all(answers)).toEqual([1, 1, 2, 1])
    expect(await first(model.infer(image(2)))).toBe(2)
    expect(decoder.begun).toEqual([1, 2])
    expect(model.stats().responseCache).toMatchObject({ hits: 1, misses: 2, coalesced: 2 })
  })

  it('is another request than pixels of the same bytes', async () => {
    decoder.isHeld = false
    const model = await load(engine, small.identity('uint8', [3, 1, 4]), {
      maxBatchSize: 4,
      responseCache: true,
      inputs: [{ name: 'x', image: {} }],
    })
    const x = new Uint8Array(12).fill(1)
    x.set([0xff, 0xd8, 0xff, 9])
    const { y } = await model.infer({ x })
    const { Tensor } = await import('../../src/index.ts')
    const { y: same } = await model.infer({ x: new Tensor('uint8', x, [1, 3, 1, 4]) })
    expect([(y!.data as Uint8Array)[3], (same!.data as Uint8Array)[4]]).toEqual([9, 1])
  })

  it('is estimated with all that came before, where it is answered after them', async () => {
    const clock = new FakeClock()
    const decoding = new ImageDecoding({
      model: 'm',
      inputs: [{ name: 'x', shape: ['N', 3, 2, 2] }],
      images: new Map([['x', resolveImageOptions({ width: 2, height: 2 })]]),
      optionalInputs: [],
      parser: { check: () => new Float32Array(12) },
      counts: { decoded: () => {} } as never,
      clock,
      leases: () => null,
    })
    const level = new PriorityLevel(0, { maxQueueSize: 0 } as never)
    const begin = (which: number) =>
      new Promise<unknown>((ready, failed) => {
        decoding
          .read(image(which))!
          .preparation.begin({ level, settled: false, data: [null] }, { begins: () => true, ready, failed })
      })
    const decode = async (which: number, ms: number) => {
      await until(() => decoder.gates.has(which))
      clock.advanceBy(ms)
      release(which)
    }
    await Promise.all([begin(1), decode(1, 50)])
    expect(decoding.estimateAll()).toMatchObject({ inMs: 0, spreadMs: 0 })
    const images = [2, 3, 4].map(begin)
    await until(() => decoder.gates.has(2))
    clock.advanceBy(20)
    expect(decoding.estimateAll()).toEqual({ inMs: 130, spreadMs: 0, isNext: false })
    releaseAll()
    await Promise.all(images)
  })
})
