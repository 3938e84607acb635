import { isSharedArrayBuffer } from 'node:util/types'
import { invalidConfig } from '../errors.ts'
import { loadBinding } from '../native/addon.ts'
import type { PaddingConfig } from '../options/model-config.ts'
import {
  shownShape,
  type ModelMetadata,
  type TensorMetadata,
  type ValueMetadata,
} from '../tensor/metadata.ts'
import { fromSmallFloat, isSmallFloat, toSmallFloat } from '../tensor/small-floats.ts'
import { isPacked, storageOf, type ElementType, type TensorData } from '../tensor/tensor.ts'
import type { InferRequest } from './infer-request.ts'

/** One padded input. */
export interface PaddedInput {
  readonly index: number
  readonly axis: number
  /** Ascending; `'longest'` for the longest of each batch. */
  readonly sizes: readonly number[] | 'longest'
  /** What to fill with, as it is stored. */
  readonly fill: number | bigint
}

/** An output that is cut back to the length of a padded input. */
interface CutOutput {
  readonly axis: number
  /** Index into {@link Padding.inputs}. */
  readonly by: number
}

/** Which dimensions of a model are padded, and to what. */
export class Padding {
  readonly inputs: readonly PaddedInput[]
  /** By index of the input: which of {@link Padding.inputs} it is; `undefined` for one that is not padded. */
  readonly byInput: readonly (number | undefined)[]
  /** By index of the output; `undefined` for one that is not cut. */
  readonly cuts: readonly (CutOutput | undefined)[]

  private constructor(
    inputs: readonly PaddedInput[],
    byInput: (number | undefined)[],
    cuts: (CutOutput | undefined)[],
  ) {
    this.inputs = inputs
    this.byInput = byInput
    this.cuts = cuts
  }

  /**
   * Fits the configuration to the model; `null` without padding.
   *
   * @throws InferenceError `ERR_MODEL_CONFIG` when an input or output does not exist or has no such variable dimension.
   */
  static of(metadata: ModelMetadata, config: readonly Required<PaddingConfig>[]): Padding | null {
    if (config.length === 0) return null
    const byInput: (number | undefined)[] = metadata.inputs.map(() => undefined)
    const cuts: (CutOutput | undefined)[] = metadata.outputs.map(() => undefined)
    const { name: model } = metadata
    if (metadata.maxBatchSize === 0)
      throw invalidConfig(model, 'padding', 'a model with a batch dimension', 'maxBatchSize 0')
    const inputs = config.map(({ input, dim, sizes, value, outputs }, entry): PaddedInput => {
      const index = find(metadata.inputs, input, dim, `padding[${entry}].input`, model)
      const { type } = metadata.inputs[index] as TensorMetadata // what has dimensions
      if (type === 'string')
        throw invalidConfig(model, `padding[${entry}].input`, 'an input of numbers', `'${input}' of strings`)
      if (isPacked(type))
        throw invalidConfig(
          model,
          `padding[${entry}].input`,
          'an input of elements of whole bytes',
          `'${input}' of ${type}`,
        )
      if (byInput[index] !== undefined)
        throw invalidConfig(model, `padding[${entry}].input`, 'an input that no other entry names', input)
      byInput[index] = entry
      for (const { name, dim: axis } of outputs) {
        const option = `padding[${entry}].outputs`
        const output = find(metadata.outputs, name, axis, option, model)
        const { type: outputType } = metadata.outputs[output] as TensorMetadata
        if (isPacked(outputType))
          throw invalidConfig(
            model,
            option,
            'outputs of elements of whole bytes',
            `'${name}' of ${outputType}`,
          )
        if (cuts[output] !== undefined)
          throw invalidConfig(model, option, 'each output once, in one entry', name)
        cuts[output] = { axis, by: entry }
      }
      const fill = stored(type, value)
      if (fill === null)
        throw invalidConfig(model, `padding[${entry}].value`, `a value of type ${type}`, value)
      return { index, axis: dim, sizes, fill }
    })
    return new Padding(inputs, byInput, cuts)
  }

  /** What stands in a bucket's key for a length: requests of equal words share a run. */
  bucketWord(entry: number, length: number): string {
    const { sizes } = this.inputs[entry]!
    return sizes === 'longest' ? '*' : `<${sizes.find((size) => size >= length) ?? length}`
  }

  /** The length to which a request of this length is filled up when it runs alone, along a dimension of an input. */
  paddedLength(input: number, axis: number, length: number): number {
    const entry = this.byInput[input]
    const padded = entry === undefined ? undefined : this.inputs[entry]!
    return padded === undefined || padded.axis !== axis || padded.sizes === 'longest'
      ? length
      : (padded.sizes.find((size) => size >= length) ?? length)
  }

  /** The lengths to which a batch is filled up, by entry. */
  lengths(batch: readonly InferRequest[]): number[] {
    return this.inputs.map(({ sizes }, entry) => {
      let longest = 0
      for (const request of batch) longest = Math.max(longest, this.ownLength(entry, request) ?? 0)
      return sizes === 'longest' ? longest : (sizes.find((size) => size >= longest) ?? longest)
    })
  }

  /** The request's own length along the padded dimension of an entry; `undefined` when it leaves that input out. */
  ownLength(entry: number, request: InferRequest): number | undefined {
    const { index, axis } = this.inputs[entry]!
    return request.dims![index]![axis]
  }
}

function find(
  values: readonly ValueMetadata[],
  name: string,
  axis: number,
  option: string,
  model: string,
): number {
  const index = values.findIndex((value) => value.name === name)
  const names = values.map((value) => `'${value.name}'`).join(', ')
  if (index === -1) throw invalidConfig(model, option, `one of ${names}`, name)
  const { shape } = values[index]!
  if (axis >= 1 && axis < shape.length && typeof shape[axis] === 'string') return index
  throw invalidConfig(
    model,
    option,
    `a variable dimension of '${name}' after the first, whose shape is ${shownShape(shape)}`,
    axis,
  )
}

/** A value as an element of `type` is stored; `null` when the type has no such value, nor one that stands for it. */
function stored(type: ElementType, value: number): number | bigint | null {
  if (type === 'float64') return value
  if (type === 'float32' || isSmallFloat(type)) {
    const kept = type === 'float32' ? Math.fround(value) : toSmallFloat(type, value)
    const read = type === 'float32' ? kept : fromSmallFloat(type, kept)
    // Rounding is what such types do; that a number becomes nothing, infinite or none is another value.
    const same =
      (read === 0) === (value === 0) &&
      Number.isFinite(read) === Number.isFinite(value) &&
      Number.isNaN(read) === Number.isNaN(value)
    return same ? kept : null
  }
  if (!Number.isInteger(value) || (type === 'bool' && value !== 0 && value !== 1)) return null
  const element = type === 'int64' || type === 'uint64' ? BigInt(value) : value
  const [kept] = storageOf(type).from([element])
  return kept === element ? element : null
}

/**
 * Copies rows whose dimension `axis` is `from` long to where it is `to` long: filled up when that is longer, cut when
 * it is shorter.
 *
 * @param outer blocks before the axis, rows included.
 * @param inner elements after the axis.
 */
export function copyResized(
  source: TensorData,
  sourceAt: number,
  target: TensorData,
  targetAt: number,
  outer: number,
  inner: number,
  from: number,
  to: number,
  fill: number | bigint,
): void {
  if (
    resizeNatively(
      { data: source, at: sourceAt, length: from * inner },
      { data: target, at: targetAt, length: to * inner },
      outer,
      fill,
    )
  )
    return
  const kept = Math.min(from, to) * inner
  for (let block = 0; block < outer; block++) {
    const start = sourceAt + block * from * inner
    const end = targetAt + block * to * inner
    ;(target as Float32Array).set((source as Float32Array).subarray(start, start + kept), end)
    if (to > from) (target as Float32Array).fill(fill as number, end + kept, end + to * inner)
  }
}

/** From so many rows on a call of the addon takes less than a loop over typed arrays; measured. */
const nativeFromRows = 32

/** Rows that lie one after the other in an array. All in elements. */
interface Rows {
  readonly data: TensorData
  /** The first element. */
  readonly at: number
  /** From the beginning of one row to that of the next. */
  readonly length: number
}

/** Has the addon copy the beginnings of rows, and fill the rest where they become longer; false where it is left to JavaScript. */
function resizeNatively(from: Rows, to: Rows, count: number, fill: number | bigint): boolean {
  if (count < nativeFromRows || isSharedArrayBuffer(from.data.buffer) || isSharedArrayBuffer(to.data.buffer))
    return false
  const { binding } = loadBinding()
  if (binding === null) return false
  const bytes = to.data.BYTES_PER_ELEMENT
  const kept = Math.min(from.length, to.length)
  binding.copyRows(
    from.data,
    from.at * bytes,
    from.length * bytes,
    to.data,
    to.at * bytes,
    to.length * bytes,
    kept * bytes,
    count,
  )
  if (to.length === kept) return true
  const element = new (to.data.constructor as new (length: number) => TensorData)(1)
  ;(element as Float32Array)[0] = fill as number
  binding.fillRows(
    to.data,
    (to.at + kept) * bytes,
    to.length * bytes,
    (to.length - kept) * bytes,
    count,
    element,
  )
  return true
}
