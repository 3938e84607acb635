// Alone: it counts the objects of its process.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { Lease, Model } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { mulberry32 } from '../models/random.ts'
import { collectGarbage } from '../support/garbage.ts'
import { load, ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { repetitions } from '../support/full.ts'

const elements = 1024
const leases = repetitions(100_000, 2500)
const perRound = 100

/** Random leases of one model, each of which is written, kept, run, released, or forgotten. */
class RandomHolder {
  readonly #model: Model
  readonly #random: () => number
  readonly #kept: { lease: Lease; value: number }[] = []
  #value = 0
  answered = 0
  aborted = 0

  constructor(model: Model, seed: number) {
    this.#model = model
    this.#random = mulberry32(seed)
  }

  /** Some leases and what becomes of them; resolves when all that was run is answered. */
  async round(): Promise<void> {
    const answers: Promise<void>[] = []
    for (let count = 0; count < perRound; count++) answers.push(...this.#one())
    answers.push(this.#plain())
    await Promise.all(answers)
  }

  endKept(): void {
    for (const { lease } of this.#kept.splice(0)) lease.release()
  }

  #one(): Promise<void>[] {
    const rows = 1 + Math.floor(this.#random() * 3)
    const expires = this.#random() < 0.01
    const lease = this.#model.lease(rows, expires ? { maxHoldMs: 1 } : {})
    const value = ++this.#value
    const writes = this.#random() < 0.9
    if (writes) lease.inputs['x']!.fill(value)
    const what = this.#random()
    if (what < 0.5) return [this.#run(lease, writes ? value : 0)]
    if (what < 0.6) lease.release()
    else if (what < 0.95 && writes) this.#kept.push({ lease, value })
    // Others are forgotten. Of those that are kept some are used, in any order.
    if (this.#kept.length < 30) return []
    const [late] = this.#kept.splice(Math.floor(this.#random() * this.#kept.length), 1)
    if (this.#random() < 0.7) return [this.#run(late!.lease, late!.value)]
    late!.lease.release()
    return []
  }

  async #run(lease: Lease, value: number): Promise<void> {
    const controller = new AbortController()
    if (this.#random() < 0.05) queueMicrotask(() => controller.abort('withdrawn'))
    try {
      const { y } = await lease.infer({ signal: controller.signal })
      this.#expectValue(y!.data as Float32Array, value, lease.rows)
      this.answered++
    } catch (error) {
      if (error === 'withdrawn') this.aborted++
      else
        expect(error).toMatchObject({
          code: 'ERR_LEASE_ENDED',
          received: expect.stringContaining('held longer'),
        })
    }
  }

  async #plain(): Promise<void> {
    const value = -1 - this.#value
    const { y } = await this.#model.infer({ x: new Float32Array(elements).fill(value) })
    this.#expectValue(y!.data as Float32Array, value, 1)
  }

  #expectValue(data: Float32Array, value: number, rows: number): void {
    const other = data.find((each) => each !== value)
    if (other !== undefined || data.length !== rows * elements)
      throw new Error(`${data.length} elements, of which one is ${other}, where all were to be ${value}`)
  }
}

it('leases that are kept, dropped, aborted or released late lose no row, leak nothing and let nobody wait', async () => {
  const engine = ownEngine({ cpuWorkers: 2, inline: false }) // what is run at once cannot be withdrawn
  const model = await load(engine, small.bigRow(elements), { maxBatchSize: 8, instanceGroup: [{ count: 2 }] })
  await model.infer({ x: new Float32Array(elements) })
  const holder = new RandomHolder(model, 7)
  for (let taken = 0; taken < leases; taken += perRound) {
    await holder.round()
    if (taken % 10_000 === 0) collectGarbage()
  }
  holder.endKept()
  await nextTurn()
  await until(() => {
    collectGarbage()
    return model.stats().leases.held === 0
  })
  const { taken, inferred, released, expired, dropped, closed, rowsInPlace, rowsCopied } =
    model.stats().leases
  expect(taken).toBe(leases)
  expect(inferred + released + expired + dropped + closed).toBe(leases)
  expect(inferred).toBe(holder.answered + holder.aborted)
  expect([dropped > leases / 100, expired > 0, holder.aborted > leases / 1000]).toEqual([true, true, true])
  expect(rowsInPlace + rowsCopied).toBeGreaterThan(0)
  expect(model.stats().pendingRequestCount).toBe(0)
  // What nobody has used for two seconds goes back; the slots of two instances stay.
  const slotBytes = 4 * 2 * 8 * elements * 4
  await until(() => (engine.stats().staging?.usedBytes ?? 0) <= 2 * slotBytes)
}, 120_000)
