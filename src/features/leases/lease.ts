import type { InferOptions, ReportedOutputs } from '../../options/infer-options.ts'
import type { AnySignature, FeedValue } from '../../options/model-signature.ts'
import { invalidArgument, type InferenceError } from '../../errors.ts'
import { pixelRows, type PixelRow, type PixelRows } from '../image/pixel-rows.ts'
import type { PixelArray } from '../image/pixels.ts'
import type { Answer } from '../../request/infer-request.ts'
import type { TensorData } from '../../tensor/tensor.ts'
import type { HeldRows } from './held-rows.ts'
import type { Leases } from './leases.ts'

/** Arrays whose elements are numbers. */
type NumberData = Exclude<TensorData, BigInt64Array | BigUint64Array>

/**
 * The arrays of a lease, by input. With a signature each has the array type that it names, otherwise any of
 * numbers. `float16` and `bfloat16` are raw bits in a `Uint16Array`.
 */
export type LeasedInputs<Inputs> = {
  readonly [Name in keyof Inputs]: FeedValue extends Inputs[Name]
    ? NumberData
    : Extract<Inputs[Name], TensorData>
}

/** As for `model.infer()`. */
type Wanted<Outputs, Name extends keyof Outputs> = [Name] extends [never] ? Outputs : Pick<Outputs, Name>

type Infer = (options: InferOptions<string, boolean> | undefined) => Promise<Answer>

/**
 * Rows of a batch to write into. Created by `model.lease()`. It ends with `infer()` or `release()`, when it
 * is held for too long, when it is garbage-collected, or with its model. Its arrays are empty afterwards,
 * wherever references to them are kept. Background writes, such as `fs.read()` into an array, must finish
 * before: their memory cannot be revoked.
 */
export class Lease<Inputs = AnySignature['inputs'], Outputs = AnySignature['outputs']> implements PixelRows {
  /** Number of rows. */
  readonly rows: number
  readonly #held: HeldRows
  readonly #leases: Leases
  readonly #infer: Infer
  #inputs: LeasedInputs<Inputs> | null = null

  /** @internal */
  constructor(leases: Leases, held: HeldRows, infer: Infer) {
    this.rows = held.rows
    this.#held = held
    this.#leases = leases
    this.#infer = infer
    leases.watch(this, held)
  }

  /** Whether it can still be written and run. */
  get held(): boolean {
    return this.#held.end === null
  }

  /**
   * All rows of each input, in the form of a request, initially zero. Rows are contiguous, except for an
   * input with a `batchAxis`; a `shared` input has one value for all rows. An optional input is left out of
   * the request unless it is read here or an image is decoded into it.
   *
   * @throws InferenceError `ERR_LEASE_ENDED` for reading an array after the end.
   */
  get inputs(): LeasedInputs<Inputs> {
    return (this.#inputs ??= this.#makeInputs())
  }

  /**
   * Runs the rows in a batch with others, in place if possible. Do not write any more.
   *
   * @throws InferenceError as `model.infer()` does; `ERR_LEASE_ENDED` if the lease has ended.
   */
  infer<Name extends keyof Outputs & string = never>(
    options: InferOptions<Name, boolean> & { report: true },
  ): Promise<ReportedOutputs<Wanted<Outputs, Name>>>
  infer<Name extends keyof Outputs & string = never>(
    options?: InferOptions<Name>,
  ): Promise<Wanted<Outputs, Name>>
  infer(options?: InferOptions<string, boolean>): Promise<unknown> {
    return this.#infer(options)
  }

  /** Releases the rows unused. Allowed in any state, and more than once. */
  release(): void {
    this.#leases.end(this.#held, 'released')
  }

  /** Same as {@link release}. */
  [Symbol.dispose](): void {
    this.release()
  }

  /** Same as {@link release}. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.release()
  }

  /** For `decodeImage(source, options, { into: lease })`. */
  get [pixelRows](): PixelRows[typeof pixelRows] {
    return {
      check: (input, row, image) => void this.#rowOf(input, row, image),
      write: (input, row, image, write) => {
        const index = this.#rowOf(input, row, image)
        this.#held.write(index, row as number, (elements) => write(elements as PixelArray))
      },
    }
  }

  #rowOf(input: unknown, row: unknown, { dtype, dims }: PixelRow): number {
    this.#leases.check(this.#held)
    const index = this.#leases.indexOf(input)
    const { name, type, dims: own, rowsFirst } = this.#held.inputs[index]!
    if (!Number.isInteger(row) || (row as number) < 0 || (row as number) >= this.rows) {
      throw invalidArgument('row', `a whole number from 0 to ${this.rows - 1}`, row)
    }
    const ownRow = own.slice(-3)
    if (type !== dtype) throw invalidArgument('dtype', `${type}, as input '${name}' has it`, dtype)
    if (
      !rowsFirst ||
      own.length < 3 ||
      own.length > 4 ||
      own.slice(0, -3).some((rows) => rows !== this.rows) ||
      ownRow.join() !== dims.join()
    ) {
      throw invalidArgument(
        'into',
        `rows of dims [${dims.join(', ')}]`,
        `input '${name}' of dims [${own.join(', ')}]`,
      )
    }
    return index
  }

  #makeInputs(): LeasedInputs<Inputs> {
    // The closure keeps the lease alive: a holder of the rows can still write.
    const view = (index: number) => {
      this.#leases.check(this.#held)
      return this.#held.view(index)
    }
    const inputs = Object.create(null) as LeasedInputs<Inputs>
    for (const [index, { name }] of this.#held.inputs.entries())
      Object.defineProperty(inputs, name, { enumerable: true, get: () => view(index) })
    return inputs
  }
}

/** The error for leased rows of a pipeline. */
export function noLeasesOf(model: string): InferenceError {
  return invalidArgument('lease', 'a model', 'a pipeline', {
    model,
    hint: 'Use infer() for this pipeline, or lease rows of the models of its steps',
  })
}
