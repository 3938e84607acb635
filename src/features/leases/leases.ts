import { type Clock, Alarm } from '../../base/clock.ts'
import { dimsOf, type ResolvedImageOptions } from '../../options/image-options.ts'
import { checkLeaseOptions } from '../../options/method-options.ts'
import { typed } from '../../options/plain-options.ts'
import { InferenceError, invalidArgument } from '../../errors.ts'
import type { PixelArray } from '../image/pixels.ts'
import { IndexedHeap } from '../../base/indexed-heap.ts'
import { RowBlocks, RowBlock, type BlockLayout } from '../../native/row-blocks.ts'
import type { LeaseStatistics } from '../../observe/model-statistics.ts'
import { HeldRows, type LeasedInput, type LeaseEnd } from './held-rows.ts'
import { fullBatchRows } from '../../schedule/buckets.ts'
import { batchLimits, type ResolvedConfig } from '../../options/model-config.ts'
import { layOut } from '../../run/layout.ts'
import { slotsFor } from '../../run/staging-slot.ts'
import { batchAxisOf, shownShape, type ModelMetadata, type ValueMetadata } from '../../tensor/metadata.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import { byteLengthOf, elementCount, isElementType, isPacked, type ElementType } from '../../tensor/tensor.ts'

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
    const dims = images.flatMap(({ name, options }) => {
      const shape = this.#inputs.rowShape(this.indexOf(name))
      const varies = shape.some((dim) => typeof dim !== 'number')
      return varies ? [[name, dimsOf(options).slice(4 - shape.length)] as const] : []
    })
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

/** The inputs of a model for which rows can be leased. */
class LeasableInputs {
  readonly model: string
  readonly #inputs: readonly ValueMetadata[]
  readonly #optional: readonly string[]
  readonly #maxRows: number
  readonly #byRows: LeasedInput[][] = [] // if all shapes are fixed

  /**
   * @param inputs the inputs, in the form that requests have.
   * @param maxBatchSize most rows; 0 for a model whose first dimension is no batch dimension: the whole input
   * is then leased as one row.
   * @throws InferenceError `ERR_INVALID_ARG` for an input that cannot be leased.
   */
  constructor(
    model: string,
    inputs: readonly ValueMetadata[],
    maxBatchSize: number,
    optional: readonly string[],
  ) {
    this.model = model
    this.#inputs = inputs
    this.#maxRows = maxBatchSize
    this.#optional = optional
    const other = inputs.find(({ type }) => !isElementType(type) || type === 'string' || isPacked(type))
    if (other === undefined) return
    const hint = 'Use infer() for this model'
    throw invalidArgument(`input '${other.name}'`, 'a type whose rows have bytes of their own', other.type, {
      model,
      hint,
    })
  }

  /**
   * @throws InferenceError `ERR_INVALID_ARG` for an unknown name; for `undefined` unless there is only one
   * input.
   */
  indexOf(name: unknown): number {
    if (name === undefined && this.#inputs.length === 1) return 0
    const index = this.#inputs.findIndex((input) => input.name === name)
    if (index !== -1) return index
    throw this.#wrong('input', `one of ${this.#inputs.map((input) => `'${input.name}'`).join(', ')}`, name)
  }

  /** The shape of an input's row. */
  rowShape(index: number): ValueMetadata['shape'] {
    const input = this.#inputs[index]!
    return this.#maxRows > 0 ? input.shape.filter((_, axis) => axis !== batchAxisOf(input)) : input.shape
  }

  /**
   * The inputs for so many rows, and whether they equal those of any other lease of so many rows.
   *
   * @param dims of the inputs with varying shape, without the batch dimension.
   * @throws InferenceError `ERR_INVALID_ARG`.
   */
  of(
    rows: unknown,
    dims: Readonly<Record<string, unknown>>,
  ): { readonly inputs: readonly LeasedInput[]; readonly fixed: boolean } {
    const most = Math.max(1, this.#maxRows)
    if (!Number.isInteger(rows) || (rows as number) < 1 || (rows as number) > most) {
      throw this.#wrong(
        'rows',
        this.#maxRows === 0
          ? '1, as the model is not batched'
          : `a whole number from 1 to ${most} (maxBatchSize)`,
        rows,
      )
    }
    for (const name in dims) this.indexOf(name)
    const count = rows as number
    const known = this.#byRows[count]
    if (known !== undefined && Object.keys(dims).length === 0) return { inputs: known, fixed: true }
    let fixed = true
    const inputs = this.#inputs.map((input, index) => {
      const shape = this.rowShape(index)
      const axisOfRows = this.#maxRows > 0 ? batchAxisOf(input) : -1
      const varies =
        shape.some((dim) => typeof dim !== 'number') || (input.shape.length === 0 && input.name in dims)
      if (varies) fixed = false
      const row =
        varies || input.name in dims
          ? this.#given(input, shape, dims[input.name])
          : (shape as readonly number[])
      return {
        name: input.name,
        type: input.type as ElementType,
        dims: axisOfRows === -1 ? row : row.toSpliced(axisOfRows, 0, count),
        rowElements: elementCount(row),
        rowsFirst: batchAxisOf(input) === 0,
        optional: this.#optional.includes(input.name),
      }
    })
    if (fixed) this.#byRows[count] = inputs
    return { inputs, fixed }
  }

  #given(
    { name, shape: shown }: ValueMetadata,
    shape: ValueMetadata['shape'],
    given: unknown,
  ): readonly number[] {
    const own = givenDims(name, given)
    const fits = Array.isArray(given) && (own.length === shape.length || shown.length === 0)
    if (
      fits &&
      own.every(
        (dim, axis) =>
          Number.isSafeInteger(dim) &&
          (dim as number) >= 0 &&
          !(typeof shape[axis] === 'number' && shape[axis] !== dim),
      )
    )
      return own as number[]
    throw this.#wrong(
      `options.dims['${name}']`,
      `the dims of a row, since the shape of the input is ${shownShape(shown)}`,
      given,
    )
  }

  #wrong(name: string, expected: string, received: unknown): InferenceError {
    return invalidArgument(name, expected, received, { model: this.model })
  }
}

/** A copy, if it is an array. */
function givenDims(name: string, given: unknown): unknown[] {
  try {
    return Array.isArray(given) ? [...(given as unknown[])] : []
  } catch (error) {
    throw typed(`options.dims['${name}']`, error)
  }
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
