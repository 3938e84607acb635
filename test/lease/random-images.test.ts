// Alone: it counts the objects of its process.
import sharp, { type Sharp } from 'sharp'
import { expect, it, onTestFinished } from 'vitest'
import { decodeImage } from '../../src/features/image/exports.ts'
import { Tensor, type InferOptions, type Lease, type Model } from '../../src/index.ts'
import { mulberry32 } from '../models/random.ts'
import * as small from '../models/small.ts'
import { expectedOf, Ledger } from '../observability/ledger.ts'
import { ownEngine } from '../support/open.ts'
import { runPlain } from '../support/plain.ts'
import { inParallel } from '../support/shared.ts'
import { until } from '../support/until.ts'
import { full, repetitions } from '../support/full.ts'

const requests = repetitions(1500, 300)
const [width, height] = [32, 24]
const rowDims = [3, height, width]
const image = { scale: 1 / 255, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }
const rowBytes = 4 * 3 * width * height

function noise(side: number, seed: number): Sharp {
  const random = mulberry32(seed)
  const pixels = Buffer.from(Array.from({ length: 3 * side * side }, () => 256 * random()))
  return sharp(pixels, { raw: { width: side, height: side, channels: 3 } })
}

const files = await Promise.all(
  Array.from({ length: 12 }, (_, at) =>
    (at % 4 === 3 ? noise(20 + 9 * at, at).png() : noise(20 + 9 * at, at).jpeg()).toBuffer(),
  ),
)
const damaged = [
  Buffer.from('no image'),
  Buffer.alloc(0),
  files[2]!.subarray(0, 200),
  files[8]!.subarray(0, files[8]!.length / 2),
]

/** What plain onnxruntime-node makes of each of them alone. */
const rows = await Promise.all(
  files.map(async (file) => {
    const { data } = await decodeImage(file, { ...image, width, height })
    return (
      await runPlain(small.identity('float32', rowDims), {
        x: { type: 'float32', dims: [1, ...rowDims], data },
      })
    )['y']!.data as Float32Array
  }),
)

/** Asks one model in all ways, and says what came of it: right answers only, or an error that the ledger knows. */
class RandomCaller {
  readonly ledger = new Ledger()
  readonly #model: Model
  readonly #random: () => number

  constructor(model: Model, random: () => number) {
    this.#model = model
    this.#random = random
  }

  async ask(): Promise<void> {
    const at = this.#below(files.length)
    const what = this.#random()
    const count = 1 + this.#below(this.#model.metadata.maxBatchSize)
    await this.ledger.note(async () => {
      if (what < 0.45) return this.#check(await this.#model.infer({ x: files[at]! }, this.#options()), at, 1)
      if (what < 0.55) return this.#model.infer({ x: damaged[this.#below(damaged.length)]! }, this.#options())
      if (what < 0.7)
        return this.#check(
          await this.#model.infer({ x: this.#tensor(at, count) }, this.#options()),
          at,
          count,
        )
      if (what < 0.72) return this.#model.infer({ x: new Float32Array(7) })
      using lease = this.#model.lease(count, this.#random() < 0.05 ? { maxHoldMs: 1 } : {})
      await this.#fill(lease, at).catch((error: { code?: string }) =>
        expect(error.code).toBe('ERR_LEASE_ENDED'),
      )
      return this.#check(await lease.infer(this.#options()), at, count)
    })
  }

  async #fill(lease: Lease, at: number): Promise<void> {
    for (let row = 0; row < lease.rows; row++) {
      if (this.#random() < 0.5)
        await decodeImage(files[at]!, { ...image, width, height }, { into: lease, row })
      else (lease.inputs['x'] as Float32Array).set(rows[at]!, row * rows[at]!.length)
    }
  }

  #tensor(at: number, count: number): Tensor {
    const data = new Float32Array(count * rows[at]!.length)
    for (let row = 0; row < count; row++) data.set(rows[at]!, row * rows[at]!.length)
    return new Tensor('float32', data, [count, ...rowDims])
  }

  #check({ y }: { [name: string]: { data: unknown } | undefined }, at: number, count: number): void {
    const { buffer, byteOffset, byteLength } = y!.data as Float32Array
    const expected = this.#tensor(at, count).data as Float32Array
    if (!Buffer.from(buffer, byteOffset, byteLength).equals(Buffer.from(expected.buffer)))
      throw new Error('it was given the bytes of another')
  }

  #options(): InferOptions {
    const how = this.#random()
    const priority = 1 + this.#below(2)
    if (how < 0.08) return { priority, timeoutMs: 0.01 + 20 * this.#random() }
    if (how < 0.14) return { priority, deadlineMs: 0.01 + 30 * this.#random() ** 3 } // many cannot be in time
    if (how < 0.16) return { priority: 1.5 }
    if (how > 0.28) return { priority }
    const controller = new AbortController()
    const abort = () => controller.abort('aborted')
    ;[
      abort,
      () => queueMicrotask(abort),
      () => setImmediate(abort),
      () => setTimeout(abort, 20 * this.#random()),
    ][this.#below(4)]!()
    return { priority, signal: controller.signal }
  }

  #below(limit: number): number {
    return Math.floor(limit * this.#random())
  }
}

const limits = [
  ['no memory', 1],
  ['memory for a few rows', 16 * rowBytes],
] as const
const others = [
  ['memory for less than a row', rowBytes - 1],
  ['memory for all', 2 ** 26],
] as const

it.each(full ? [...limits, ...others] : limits)(
  'images, pixels and leases of two models that share %s are answered as alone, whatever fails, and nothing stays',
  { timeout: 60_000 },
  async (_, limitBytes) => {
    const warn = process.emitWarning
    process.emitWarning = () => {} // of slower memory
    onTestFinished(() => void (process.emitWarning = warn))
    const engine = ownEngine({ cpuWorkers: 2, inline: false, staging: { limitBytes } })
    const random = mulberry32(limitBytes)
    const dynamicBatching = { priorityLevels: 2, defaultPriorityLevel: 2 }
    const config = {
      path: small.identity('float32', rowDims),
      inputs: [{ name: 'x', image }],
      dynamicBatching,
    }
    const callers = [
      await engine.load('joined', {
        ...config,
        maxBatchSize: 8,
        rerunAfterCrash: true,
        instanceGroup: [{ kind: 'cpu', count: 2 }],
      }),
      await engine.load('alone', {
        ...config,
        maxBatchSize: 1,
        weight: 3,
        dynamicBatching: { ...dynamicBatching, defaultQueuePolicy: { maxQueueSize: 40 } },
      }),
    ].map((model) => ({ model, caller: new RandomCaller(model, random) }))
    await inParallel(64, Array.from({ length: requests }), async () => {
      await callers[Math.floor(2 * random())]!.caller.ask()
    })
    for (const { model, caller } of callers) {
      const { found, expected } = expectedOf(model, caller.ledger) as Record<
        'found' | 'expected',
        Record<string, unknown>
      >
      for (const each of [found, expected])
        for (const figure of ['runs of instances', 'rows of instances']) delete each![figure] // some died over a run
      expect(found).toEqual(expected)
      const { taken, held, inferred, released, expired, dropped, closed } = model.stats().leases
      expect([held, inferred + released + expired + dropped + closed]).toEqual([0, taken])
    }
    expect(callers.flatMap(({ caller }) => Object.keys(caller.ledger.seen))).toEqual(
      expect.arrayContaining([
        'answered',
        'aborted',
        'ERR_INVALID_ARG',
        'ERR_IMAGE_DECODE',
        'ERR_TIMEOUT',
        'ERR_DEADLINE',
      ]),
    )
    await Promise.all(callers.map(({ model }) => model.unload()))
    await until(() => engine.stats().staging!.usedBytes === 0)
  },
)
