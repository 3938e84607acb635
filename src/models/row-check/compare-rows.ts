import type { InferenceSession } from 'onnxruntime-common'
import { PluginProvider, type ComputePrecision } from '../../options/engine-options.ts'
import { elementCount, isFloatType, type ElementType, type MailedTensor } from '../../tensor/tensor.ts'
import { mailedNumbers, type Elements } from '../../tensor/elements.ts'
import { floatTolerance } from '../../schedule/joining.ts'
import { isSmallFloat, significantBits } from '../../tensor/small-floats.ts'
import { cutRows, isMailedTensor, rowCount, tensorsIn, type MailedValue } from '../../tensor/values.ts'

/** Value of {@link floatTolerance} where a provider computes with this precision. */
const toleranceOfPrecision: Readonly<Record<ComputePrecision, number>> = {
  float32: floatTolerance,
  float16: 1e-2,
  bfloat16: 4e-2,
}
/**
 * Tolerance for 16-bit values, in units in the last place: 1 % for float16, which has 11 significant bits, 8 % for
 * bfloat16.
 */
const tolerablePlaces = 10
/** 8-bit floats, whose last place exceeds this share of the value, may differ by one place. */
const muchOfAPlace = 1 / 64

/** The tolerance of a session with these options: a provider may compute with less precision than the model's types. */
export function toleranceWith({ executionProviders = [] }: InferenceSession.SessionOptions): number {
  // The default of a provider is assumed to be the lowest precision.
  const coarser = executionProviders.map((provider) =>
    provider instanceof PluginProvider ? toleranceOfPrecision[provider.precision ?? 'bfloat16'] : 0,
  )
  return Math.max(floatTolerance, ...coarser)
}

/** Rows distinguish each other only if they differ by this many times the tolerance ... */
const tellingTimes = 10
/** ... or by this share of the larger one. */
const tellingShare = 0.5
/** Differences of a row of zeros are relative to this share of the other rows. */
const floorShare = 1e-4

/** The result of a comparison. */
export interface Comparison {
  /** Relative to the tensor's rows; `Infinity` if undefined. */
  readonly difference: number
  /** What is wrong; `null` if nothing. */
  readonly reason: string | null
}

/** Allowed relative difference for an element type, where floats are computed with `tolerance`. */
function toleranceOf(type: ElementType, tolerance: number): number {
  if (!isSmallFloat(type)) return isFloatType(type) ? tolerance : 0
  const place = 2 ** (1 - significantBits(type))
  return Math.max(tolerance, place > muchOfAPlace ? place : tolerablePlaces * place)
}

/**
 * Compares one output of a batch, of any kind, with the outputs of its requests when they ran alone. A sequence is
 * compared entry by entry, with the tensors of two entries as rows: keys must be equal, and floats within the tolerance
 * of tensors.
 *
 * @param alone outputs of each request, in the order of the batch.
 * @param rows of each request.
 * @param tolerance for floats.
 */
export function compareValue(
  name: string,
  alone: readonly MailedValue[],
  rows: readonly number[],
  joined: MailedValue,
  tolerance = floatTolerance,
): Comparison {
  const counts = [...rows, rows.reduce((sum, count) => sum + count, 0)]
  const values = [...alone, joined]
  const odd = values.findIndex((value, index) => rowCount(value) !== counts[index])
  if (odd !== -1) return undivided(name, values[odd]!, counts[odd]!)
  if (isMailedTensor(joined) && alone.every(isMailedTensor))
    return compareTensors(name, alone, rows, joined, tolerance)
  let difference = 0
  let row = 0
  for (const [index, value] of alone.entries()) {
    for (let own = 0; own < rows[index]!; own++, row++) {
      const compared = compareEntry(
        name,
        cutRows(value, own, own + 1),
        cutRows(joined, row, row + 1),
        tolerance,
      )
      difference = Math.max(difference, compared.difference)
      if (compared.reason !== null) return { difference, reason: compared.reason }
    }
  }
  return { difference, reason: null }
}

/** Compares two whole values, whatever their rows. */
export function compareEntry(name: string, a: MailedValue, b: MailedValue, tolerance: number): Comparison {
  const [own, other] = [tensorsIn(a), tensorsIn(b)]
  if (own.length !== other.length)
    return shapeless(`output '${name}' has ${own.length} parts in one run and ${other.length} in another`)
  let difference = 0
  for (const [at, tensor] of own.entries()) {
    const compared = compareTensors(name, [asRow(tensor)], [1], asRow(other[at]!), tolerance)
    difference = Math.max(difference, compared.difference)
    if (compared.reason !== null) return compared
  }
  return { difference, reason: null }
}

function undivided(name: string, value: MailedValue, rows: number): Comparison {
  const count = rowCount(value)
  const what = isMailedTensor(value)
    ? ` of shape [${value.dims.join(', ')}]`
    : count === null
      ? ''
      : ` of ${count} entries`
  return shapeless(`output '${name}'${what} is not divided by rows${what === '' ? '' : ` (${rows})`}`)
}

function shapeless(reason: string): Comparison {
  return { difference: Infinity, reason }
}

/** The whole tensor is one row, whatever its first dimension counts. */
function asRow(tensor: MailedTensor): MailedTensor {
  return { ...tensor, dims: [1, ...tensor.dims] }
}

function compareTensors(
  name: string,
  alone: readonly MailedTensor[],
  rows: readonly number[],
  joined: MailedTensor,
  tolerance: number,
): Comparison {
  const rowDims = joined.dims.slice(1)
  const other = alone.find(({ dims }) => dims.slice(1).join() !== rowDims.join())
  if (other !== undefined) {
    return shapeless(
      `output '${name}' has rows of shape [${rowDims.join(', ')}] in one run and [${other.dims.slice(1).join(', ')}] in another`,
    )
  }
  const { type } = joined
  const elements = elementCount(rowDims)
  const values = mailedNumbers(joined)
  const parts = alone.map(mailedNumbers)
  const floor = isFloatType(type)
    ? floorShare * Math.max(0, ...parts.map((part) => magnitude(part, 0, part.length)))
    : 0
  let difference = 0
  let row = 0
  for (const [index, part] of parts.entries()) {
    for (let own = 0; own < rows[index]!; own++, row++) {
      difference = Math.max(
        difference,
        rowDifference(part, own * elements, values, row * elements, elements, floor),
      )
    }
  }
  const wrong = difference > toleranceOf(type, tolerance)
  return {
    difference,
    reason: wrong ? `output '${name}' of a row is another when other rows are in the run` : null,
  }
}

/** Whether requests that ran alone differ enough in an output to reveal mixed-up rows. */
export function valuesTellApart(alone: readonly MailedValue[], tolerance = floatTolerance): boolean {
  if (alone.every(isMailedTensor)) return tensorsTellApart(alone, tolerance)
  const [first, ...others] = alone.map(tensorsIn)
  return others.some(
    (own) =>
      own.length !== first!.length ||
      own.some((tensor, at) => tensorsTellApart([asRow(first![at]!), asRow(tensor)], tolerance)),
  )
}

function tensorsTellApart(alone: readonly MailedTensor[], tolerance: number): boolean {
  const first = alone.find(isReadable)
  if (first === undefined) return false
  const enough = Math.min(tellingTimes * toleranceOf(first.type, tolerance), tellingShare)
  return alone.some((other) => {
    if (other === first || !isReadable(other)) return false
    if (other.dims.slice(1).join() !== first.dims.slice(1).join()) return true
    const [a, b] = [mailedNumbers(first), mailedNumbers(other)]
    return rowDifference(a, 0, b, 0, Math.min(a.length, b.length), 0) > enough
  })
}

/** Whether it has anything to compare: NaN everywhere is the same in any case. */
function isReadable(tensor: MailedTensor): boolean {
  const values = mailedNumbers(tensor)
  return values.length > 0 && (!isFloatType(tensor.type) || (values as Float32Array).some(Number.isFinite))
}

/** The largest finite absolute value. */
function magnitude(values: Elements, start: number, end: number): number {
  let most = 0
  for (let index = start; index < end; index++) {
    const size = Math.abs(Number(values[index]))
    if (size > most && size !== Infinity) most = size
  }
  return most
}

/**
 * The largest difference of two rows relative to the larger one; values other than numbers differ by infinity or not at
 * all.
 */
function rowDifference(
  a: Elements,
  aAt: number,
  b: Elements,
  bAt: number,
  length: number,
  floor: number,
): number {
  let most = 0
  for (let index = 0; index < length; index++) {
    const x = a[aAt + index]!
    const y = b[bAt + index]!
    if (x === y || (x !== x && y !== y)) continue
    // Adjacent 64-bit integers may be equal as floats.
    const distance =
      typeof x === 'string' ? Infinity : Math.abs(Number(x) - Number(y)) || (typeof x === 'bigint' ? 1 : NaN)
    // NaN if only one side is NaN or infinite.
    if (!(distance < Infinity)) return Infinity
    if (distance > most) most = distance
  }
  if (most === 0) return 0
  return most / (Math.max(magnitude(a, aAt, aAt + length), magnitude(b, bAt, bAt + length)) + floor)
}
