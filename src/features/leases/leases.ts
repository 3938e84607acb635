import type { Clock } from '../../base/clock.ts'
import { dimsOf, type ResolvedImageOptions } from '../../options/image-options.ts'
import { checkLeaseOptions } from '../../options/method-options.ts'
import { InferenceError, invalidArgument } from '../../errors.ts'
import type { PixelArray } from '../image/pixels.ts'
import { IndexedHeap } from '../../base/indexed-heap.ts'
import { RowBlocks, RowBlock, type BlockLayout } from '../../native/row-blocks.ts'
import { type LeaseStatistics, noLeases } from '../../observe/model-statistics.ts'
import { Alarm } from '../../base/alarm.ts'
import { HeldRows, type LeaseEnd } from './held-rows.ts'
import { LeasableInputs } from './leasable-inputs.ts'
import { fullBatchRows } from '../../options/batching.ts'
import { batchLimits, type ResolvedConfig } from '../../options/model-config.ts'
import { layOut } from '../../run/layout.ts'
import { slotsFor } from '../../run/staging-slot.ts'
import { batchAxisOf, type ModelMetadata, type ValueMetadata } from '../../tensor/metadata.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import { byteLengthOf, elementCount, isPacked, type ElementType } from '../../tensor/tensor.ts'

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

/** The leases of a loaded model from the first on, and those of models that it has replaced, which end with it. */
export class ModelLeases {
  readonly #make: () => Leases
  #own: Leases | null = null
  #earlier: Leases[] = []

  /** @param make throws for a model of which no rows can be leased. */
  constructor(make: () => Leases) {
    this.#make = make
  }

  /** @throws InferenceError `ERR_INVALID_ARG` for a model of which no rows can be leased. */
  lend(): Leases {
    return (this.#own ??= this.#make())
  }

  /** The same; `null` for such a model. */
  lendIfAny(): Leases | null {
    try {
      return this.lend()
    } catch {
      return null
    }
  }

  get stats(): LeaseStatistics {
    return this.#own?.stats ?? noLeases
  }

  /** The model takes no more requests: what callers hold of it goes on with a successor, and ends without one. */
  end(successor?: ModelLeases): void {
    if (successor === undefined) this.#endAll()
    else successor.#succeed(this)
  }

  /** Gives memory back, as soon as nobody holds it. */
  close(): void {
    this.#own?.close()
  }

  #succeed(replaced: ModelLeases): void {
    const own = replaced.#own === null ? [] : [replaced.#own]
    this.#earlier = [...this.#earlier, ...replaced.#earlier, ...own].filter((leases) => leases.anyHeld)
    replaced.#earlier = []
  }

  #endAll(): void {
    for (const leases of this.#earlier.splice(0)) leases.endAll()
    this.#own?.endAll()
  }
}

/** Smaller rows cost less to copy than to have a batch run where they are; measured. */
const inPlaceFromBytes = 4096
/** Most bytes of one block, if more than a row fits. */
const largestBlock = 64 * 2 ** 20
/**
 * Most bytes of a model's blocks, if no more are needed at the same time: rows of requests that wait lie there, too. Arrays of
 * their own outlive young generations: with 64 photographs V8 collected its whole heap 15 times a second, a sixth of the throughput.
 */
const blocksBytes = 256 * 2 ** 20
/** And most of them: the pool that they are taken from looks at all it has lent, whenever some is taken or given back. */
const blocksAtMost = 512
/** Blocks beside those that run and those that wait behind: one is filled, another is written still. */
const blocksBeside = 2

/**
 * What rows of a loaded model are leased from.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for a model of which none can be.
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
  let isLent = true // as far as is known
  const make = (spare: boolean) => {
    const [instance] = instances
    if (instance === undefined || layout === null || !isLent) return null // each lease has memory of its own
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

/** How a block is divided whose rows can be run where they are; `null` where rows differ in size, do not lie one behind the other, share bytes, or are small. */
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
