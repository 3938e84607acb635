import { type Clock, Alarm } from '../../base/clock.ts'
import { dimsOf, type ResolvedImageOptions } from '../../options/image-options.ts'
import { checkLeaseOptions } from '../../options/method-options.ts'
import { InferenceError, invalidArgument } from '../../errors.ts'
import type { PixelArray } from '../image/pixels.ts'
import { IndexedHeap } from '../../base/indexed-heap.ts'
import { RowBlocks, RowBlock, type BlockLayout } from '../../native/row-blocks.ts'
import type { LeaseStatistics } from '../../observe/model-statistics.ts'
import { HeldRows, type LeaseEnd } from './held-rows.ts'
import { LeasableInputs } from './leasable-inputs.ts'
import { fullBatchRows } from '../../schedule/buckets.ts'
import { batchLimits, type ResolvedConfig } from '../../options/model-config.ts'
import { layOut } from '../../run/layout.ts'
import { slotsFor } from '../../run/staging-slot.ts'
import { batchAxisOf, type ModelMetadata, type ValueMetadata } from '../../tensor/metadata.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import { byteLengthOf, elementCount, isPacked, type ElementType } from '../../tensor/tensor.ts'

/** A decoded image. */
export interface DecodedImage {
  readonly name: string
  readonly options: ResolvedImageOptions
  /** Writes it as a row of its input. Call it once. */
  writeTo(elements: PixelArray): void
}

/** The leases of one loaded model, until each is run, released, expired, or dropped by its holder. */
export class Leases {
  readonly #inputs: LeasableInputs
  readonly #blocks: RowBlocks
  readonly #clock: Clock
  readonly #held = new IndexedHeap<HeldRows>((a, b) => a.expiresAtMs < b.expiresAtMs)
  readonly #alarm: Alarm
  /** Reuses the rows of garbage-collected leases. */
  readonly #dropped = new FinalizationRegistry<HeldRows>((rows) => this.end(rows, 'dropped'))
  readonly #ended: Record<LeaseEnd, number> = { inferred: 0, released: 0, expired: 0, dropped: 0, closed: 0 }
  #taken = 0

  /** @param blocks memory for rows. */
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

  /**
   * Rows that only the engine writes and holds until they are settled; they do not count as a lease. `null`
   * if they are not possible.
   */
  stage(rows: number): HeldRows | null {
    const { inputs, fixed } = this.#inputs.of(rows, {})
    return fixed ? new HeldRows(rows, inputs, this.#blocks, 0, Infinity) : null
  }

  /** Ends the lease when its holder is garbage-collected. */
  watch(holder: object, rows: HeldRows): void {
    this.#dropped.register(holder, rows, rows)
  }

  /** Index of an input by its name; see {@link LeasableInputs.indexOf}. */
  indexOf(name: unknown): number {
    return this.#inputs.indexOf(name)
  }

  /** A lease of one row with images written into it. */
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
      this.end(rows, 'released') // for example out of memory
      throw error
    }
    return rows
  }

  /** @throws InferenceError `ERR_LEASE_ENDED` if the lease has ended. */
  check({ end, maxHoldMs }: HeldRows): void {
    if (end === null) return
    const why = end === 'expired' ? `it was held longer than maxHoldMs (${maxHoldMs} ms)` : reasons[end]
    const model = this.#inputs.model
    const details = { model, name: 'lease', expected: 'a lease that is held', received: why }
    throw new InferenceError(
      'ERR_LEASE_ENDED',
      `The lease of rows of model '${model}' has ended: ${why}. Get another with model.lease().`,
      details,
    )
  }

  /**
   * Ends a lease; false if it had ended before. A lease that is run keeps its memory until the run is
   * settled.
   */
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

  /** Ends all leases: the model takes no more requests. */
  endAll(): void {
    for (let held = this.#held.peek(); held !== null; held = this.#held.peek()) this.end(held, 'closed')
  }

  /** Frees memory that is not held, now and as soon as more becomes free. */
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
  dropped: 'it was no longer referenced',
  closed: 'its model was closed',
}

/** Smaller rows are cheaper to copy than to run in place (measured). */
const inPlaceFromBytes = 4096
/** Most bytes of one block, if more than one row fits. */
const largestBlock = 64 * 2 ** 20
/**
 * Most bytes of a model's blocks, unless runs need more at the same time. Rows of waiting requests lie in
 * blocks, too. Separate arrays would outlive V8's young generation: with 64 photographs V8 collected its
 * whole heap 15 times a second, which cost a sixth of the throughput.
 */
const blocksBytes = 256 * 2 ** 20
/** Most blocks. Each take and return of a buffer scans all that its pool has lent. */
const blocksAtMost = 512
/**
 * Blocks besides those in runs and those that wait for one: one is being filled, another is still being
 * written.
 */
const blocksBeside = 2

/**
 * The leases of a loaded model.
 *
 * @throws InferenceError `ERR_INVALID_ARG` if its rows cannot be leased.
 */
export function leasesOf(scheduler: Scheduler, config: ResolvedConfig): Leases {
  const { joining, clock } = scheduler
  const { name, maxBatchSize } = joining.stacked
  if (config.sequence !== null)
    throw invalidArgument('lease', 'a model without sequences', 'one with sequences', {
      model: name,
      hint: 'Use infer() for this model',
    })
  const inputs = new LeasableInputs(name, joining.shaped.shown.inputs, maxBatchSize, config.optionalInputs)
  const layout = blockLayout(joining.stacked, fullBatchRows(batchLimits(config, maxBatchSize)))
  const blocks = blocksFor(scheduler, layout)
  scheduler.instances.rowBlocks = blocks
  return new Leases(inputs, blocks, clock)
}

function blocksFor({ instances, clock }: Scheduler, layout: BlockLayout | null): RowBlocks {
  let isLent = true // until proven otherwise
  const make = (spare: boolean) => {
    const [instance] = instances
    if (instance === undefined || layout === null || !isLent) return null // each lease has its own memory
    const { source } = instance
    const buffer = spare
      ? (source.acquireSpare?.(layout.byteLength) ?? null)
      : source.acquire(layout.byteLength)
    if (buffer === null) return null
    if (buffer.lend !== undefined) return new RowBlock(layout, buffer, source.device ?? null)
    isLent = false
    buffer.release()
    return null
  }
  const needed = () => slotsFor(1) * instances.size + blocksBeside
  const most = layout === null ? 0 : Math.min(blocksAtMost, Math.floor(blocksBytes / layout.byteLength))
  return new RowBlocks(clock, make, needed, most, ({ buffer }) => instances.forgetMemory(buffer.memory))
}

/**
 * The layout of blocks whose rows can be run in place; `null` if rows differ in size, are not contiguous,
 * share bytes, or are small.
 */
function blockLayout(metadata: ModelMetadata, fullRows: number): BlockLayout | null {
  const { inputs, outputs } = metadata
  if ([...inputs, ...outputs].some((value) => batchAxisOf(value) !== 0)) return null
  const varies = inputs.some(({ shape }) => shape.slice(1).some((dim) => typeof dim !== 'number'))
  if (metadata.maxBatchSize === 0 || varies || outputs.some(({ type }) => isPacked(type as ElementType)))
    return null
  const lay = (rows: number) => layOut(metadata, { rows, given: inputs })
  const bytesOf = ({ type }: ValueMetadata, dims: readonly number[]) =>
    byteLengthOf(type as ElementType, elementCount(dims))
  const one = lay(1)
  const inputBytes = inputs.reduce((sum, input, index) => sum + bytesOf(input, one.inputs[index]!.dims), 0)
  if (inputBytes < inPlaceFromBytes) return null
  const rows = Math.max(1, Math.min(fullRows, Math.floor(largestBlock / one.byteLength)))
  const { byteLength, inputs: places, outputs: outputPlaces } = lay(rows)
  return {
    rows,
    byteLength,
    inputs: places.map((place, index) => ({
      offset: place!.offset,
      rowBytes: bytesOf(inputs[index]!, place!.dims) / rows,
    })),
    outputs: outputPlaces.map((place, index) =>
      place ? { offset: place.offset, rowBytes: bytesOf(outputs[index]!, place.dims) / rows } : null,
    ),
  }
}
