import type { Clock } from '../../base/clock.ts'
import { dimsOf, type ResolvedImageOptions } from '../../options/image-options.ts'
import { checkLeaseOptions } from '../../options/method-options.ts'
import { InferenceError, invalidArgument } from '../../errors.ts'
import type { PixelArray } from '../image/pixels.ts'
import { IndexedHeap } from '../../base/indexed-heap.ts'
import type { RowBlocks } from '../../native/row-blocks.ts'
import type { LeaseStatistics } from '../../observe/model-statistics.ts'
import { Alarm } from '../../base/alarm.ts'
import { HeldRows, type LeaseEnd } from './held-rows.ts'
import type { LeasableInputs } from './leasable-inputs.ts'

/** An image as pixels. */
export interface DecodedImage {
  readonly name: string
  readonly options: ResolvedImageOptions
  /** Writes it as a row of its input, once. */
  writeTo(elements: PixelArray): void
}

/** The leases of one loaded model: until each is run, released, expired, or dropped by whoever had it. */
export class Leases {
  readonly #inputs: LeasableInputs
  readonly #blocks: RowBlocks
  readonly #clock: Clock
  readonly #held = new IndexedHeap<HeldRows>((a, b) => a.expiresAtMs < b.expiresAtMs)
  readonly #alarm: Alarm
  /** Of those whose holder is gone the rows are used again. */
  readonly #dropped = new FinalizationRegistry<HeldRows>((rows) => this.end(rows, 'dropped'))
  readonly #ended: Record<LeaseEnd, number> = { inferred: 0, released: 0, expired: 0, dropped: 0, closed: 0 }
  #taken = 0

  /** @param blocks where rows may lie. */
  constructor(inputs: LeasableInputs, blocks: RowBlocks, clock: Clock) {
    this.#inputs = inputs
    this.#blocks = blocks
    this.#clock = clock
    this.#alarm = new Alarm(clock, () => this.#expire())
  }

  get stats(): LeaseStatistics {
    const { inPlace, copied } = this.#blocks.rows
    return {
      taken: this.#taken,
      held: this.#held.size,
      ...this.#ended,
      rowsInPlace: inPlace,
      rowsCopied: copied,
    }
  }

  get anyHeld(): boolean {
    return this.#held.size > 0
  }

  /**
   * Leases rows.
   *
   * @throws InferenceError `ERR_INVALID_ARG`.
   */
  take(rows: unknown, options: unknown): HeldRows {
    const { maxHoldMs, dims } = checkLeaseOptions(this.#inputs.model, options)
    const { inputs, fixed } = this.#inputs.of(rows, dims)
    const held = new HeldRows(
      rows as number,
      inputs,
      fixed ? this.#blocks : null,
      this.#clock.nowMs(),
      maxHoldMs,
    )
    this.#taken++
    this.#held.push(held)
    this.#alarm.set(held.expiresAtMs)
    return held
  }

  /** Rows that nobody but the engine writes and holds, until they are settled: no lease. `null` where there can be none. */
  stage(rows: number): HeldRows | null {
    const { inputs, fixed } = this.#inputs.of(rows, {})
    return fixed ? new HeldRows(rows, inputs, this.#blocks, 0, Infinity) : null
  }

  /** Ends a lease whose holder is collected. */
  watch(holder: object, rows: HeldRows): void {
    this.#dropped.register(holder, rows, rows)
  }

  /** Index of an input by its name; see {@link LeasableInputs.indexOf}. */
  indexOf(name: unknown): number {
    return this.#inputs.indexOf(name)
  }

  /** A lease of one row with images written in it. */
  takeWith(images: readonly DecodedImage[]): HeldRows {
    const varying = images.filter(({ name }) => this.#inputs.varies(this.indexOf(name)))
    const dims = varying.map(
      ({ name, options }) =>
        [name, dimsOf(options).slice(4 - this.#inputs.rowRank(this.indexOf(name)))] as const,
    )
    const rows = this.take(1, { dims: Object.fromEntries(dims) })
    try {
      for (const { name, writeTo } of images)
        rows.write(this.indexOf(name), 0, (elements) => writeTo(elements as PixelArray))
    } catch (error) {
      this.end(rows, 'released') // there is no memory, say
      throw error
    }
    return rows
  }

  /** @throws InferenceError `ERR_LEASE_ENDED` for a lease that is not held any more. */
  check({ end, maxHoldMs }: HeldRows): void {
    if (end === null) return
    const why = end === 'expired' ? `it was held for longer than maxHoldMs (${maxHoldMs} ms)` : reasons[end]
    const model = this.#inputs.model
    const details = { model, name: 'lease', expected: 'a lease that is held', received: why }
    throw new InferenceError(
      'ERR_LEASE_ENDED',
      `The lease of rows of model '${model}' has ended: ${why}. Take another with model.lease().`,
      details,
    )
  }

  /** Ends a lease; false when it had ended before. Of one that is run the memory stays until that is settled. */
  end(rows: HeldRows, how: LeaseEnd): boolean {
    if (rows.end !== null) return false
    rows.end = how
    this.#ended[how]++
    this.#held.remove(rows)
    this.#dropped.unregister(rows)
    if (this.#held.size === 0) this.#alarm.clear()
    if (how !== 'inferred') rows.settled()
    return true
  }

  /** Ends all: what they are of takes no more requests. */
  endAll(): void {
    for (let held = this.#held.peek(); held !== null; held = this.#held.peek()) this.end(held, 'closed')
  }

  /** Gives memory back that nobody holds, from now on as soon as that is so. */
  close(): void {
    this.#blocks.close()
  }

  #expire(): void {
    const nowMs = this.#clock.nowMs()
    let next = this.#held.peek()
    for (; next !== null && next.expiresAtMs <= nowMs; next = this.#held.peek()) this.end(next, 'expired')
    if (next !== null) this.#alarm.set(next.expiresAtMs)
  }
}

const reasons: Readonly<Record<Exclude<LeaseEnd, 'expired'>, string>> = {
  inferred: 'its rows were run',
  released: 'it was released',
  dropped: 'nobody had it any more',
  closed: 'its model was closed',
}

/** The error of a lease that is given an option which makes no sense for it. */
export function notForLeases(model: string, option: string, received: unknown): InferenceError {
  return invalidArgument(`options.${option}`, 'to be left out for leased rows', received, { model })
}
