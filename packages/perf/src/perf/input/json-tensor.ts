import {
  invalidArgument,
  toFloat16Bits,
  byteLengthOf,
  elementCount,
  isFloatType,
  isRawType,
  storageLength,
  storageOf,
} from 'zerohop/internals'
import type { ElementType, TensorData } from 'zerohop'
import type { InputShape } from './input-shapes.ts'
import type { RowTensor } from './row-tensors.ts'

/** Deeper than any tensor; what lies deeper is no element. */
const mostDims = 64

/**
 * Reads a tensor as perf_analyzer has it in JSON: its elements, `{ "b64": bytes }`, or either as `content` beside a `shape`.
 *
 * @param where for messages.
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function readJsonTensor(value: unknown, shape: InputShape, where: string): RowTensor {
  const { content, dims } = parts(value, shape, where)
  const { type } = shape
  if (typeof content === 'string') {
    // Node.js skips what is none.
    if (!/^[\w+/\s-]*[=\s]*$/.test(content)) throw invalidArgument(where, 'base64', content)
    const bytes = Buffer.from(content, 'base64')
    return fit(
      type === 'string' ? prefixedStrings(bytes, where) : fromBytes(type, bytes, where),
      dims,
      type,
      where,
    )
  }
  const elements = (content as unknown[]).flat(mostDims)
  return fit(
    type === 'string' ? elements.map((each) => text(each, where)) : numbers(type, elements, where),
    dims,
    type,
    where,
  )
}

/** The elements, or base64 text, and dims of which -1 is to be found from their number. */
function parts(
  value: unknown,
  { rowDims }: InputShape,
  where: string,
): { content: unknown; dims: readonly number[] } {
  const { b64, content, shape } = Object(value) as { b64?: unknown; content?: unknown; shape?: unknown }
  const given = Array.isArray(value)
    ? value
    : (b64 ?? (content as { b64?: unknown } | undefined)?.b64 ?? content)
  if (!Array.isArray(given) && typeof given !== 'string')
    throw invalidArgument(
      where,
      'an array of elements, { "b64": text }, or either as "content" beside a "shape"',
      value,
    )
  if (shape === undefined) return { content: given, dims: rowDims }
  const fits =
    Array.isArray(shape) &&
    shape.length === rowDims.length &&
    shape.every((dim, axis) => Number.isInteger(dim) && (rowDims[axis] === -1 || rowDims[axis] === dim))
  if (!fits)
    throw invalidArgument(
      `${where}.shape`,
      `dims that fit [${rowDims.join(', ')}], without the batch dimension`,
      shape,
    )
  return { content: given, dims: shape as number[] }
}

function fit(
  data: TensorData | string[],
  dims: readonly number[],
  type: ElementType,
  where: string,
): RowTensor {
  const unknown = dims.filter((dim) => dim === -1).length
  const known = elementCount(dims.filter((dim) => dim !== -1))
  const given = unknown === 1 && type !== 'int4' && type !== 'uint4' ? data.length / known : -1
  const own = dims.map((dim) => (dim === -1 ? given : dim))
  if (own.some((dim) => !Number.isInteger(dim) || dim < 0))
    throw invalidArgument(
      where,
      `a shape, as [${dims.join(', ')}] does not say which of its elements lie where`,
      `${data.length} elements`,
      { hint: 'Give it as { "content": elements, "shape": dims }, or by --shape' },
    )
  const expected = storageLength(type, elementCount(own))
  if (data.length !== expected)
    throw invalidArgument(
      where,
      `${expected} elements, as its shape is [${own.join(', ')}]`,
      `${data.length} elements`,
    )
  return { dims: own, data }
}

/** Bytes of elements, as they lie in memory. @throws InferenceError `ERR_INVALID_ARG`. */
export function fromBytes(type: ElementType, bytes: Uint8Array, where: string): TensorData {
  const size = byteLengthOf(type, type === 'int4' || type === 'uint4' ? 2 : 1)
  if (bytes.byteLength % size !== 0)
    throw invalidArgument(
      where,
      `a multiple of ${size} bytes, as elements of ${type} have`,
      `${bytes.byteLength} bytes`,
    )
  return new (storageOf(type))(Uint8Array.from(bytes).buffer)
}

/** Strings with a length of 32 bits, little-endian, before each. */
function prefixedStrings(bytes: Buffer, where: string): string[] {
  const texts: string[] = []
  for (let at = 0; at < bytes.length;) {
    const end = at + 4 <= bytes.length ? at + 4 + bytes.readUInt32LE(at) : Infinity
    if (end > bytes.length)
      throw invalidArgument(
        where,
        'strings that each have their length before them, as 32 bits',
        `${bytes.length} bytes, of which those from ${at} on have not`,
      )
    texts.push(bytes.toString('utf8', at + 4, end))
    at = end
  }
  return texts
}

function text(element: unknown, where: string): string {
  if (typeof element === 'string') return element
  throw invalidArgument(where, 'strings', element)
}

function numbers(type: ElementType, elements: readonly unknown[], where: string): TensorData {
  if (isRawType(type))
    throw invalidArgument(where, `{ "b64": text }, as JSON has no numbers of ${type}`, 'an array')
  const data = new (storageOf(type))(elements.length)
  for (const [index, element] of elements.entries()) {
    const value = numberOf(type, element)
    if (value !== null) data[index] = value
    if (value === null || !isKept(type, data[index]!, value))
      throw invalidArgument(
        `${where}[${index}]`,
        `an element of ${type}`,
        element,
        isBig(type) ? { hint: 'Give a number above 2^53 as text' } : {},
      )
  }
  return data
}

const isBig = (type: ElementType) => type === 'int64' || type === 'uint64'

/** An element as it is stored; `null` for what is none of its type. */
function numberOf(type: ElementType, element: unknown): number | bigint | null {
  if (isBig(type)) {
    const isExact = Number.isSafeInteger(element) || (typeof element === 'string' && /^-?\d+$/.test(element))
    return isExact ? BigInt(element as number | string) : null
  }
  if (type === 'bool')
    return element === true || element === 1 ? 1 : element === false || element === 0 ? 0 : null
  if (typeof element !== 'number') return null
  return type === 'float16' ? toFloat16Bits(element) : element
}

/** Whether memory holds what was stored: arrays of whole numbers drop fractions and what is too large, and floats make it infinite. */
function isKept(type: ElementType, kept: number | bigint, value: number | bigint): boolean {
  if (type === 'float16') return (Number(kept) & 0x7c00) !== 0x7c00
  return isFloatType(type) ? Number.isFinite(kept) : kept === value || Object.is(value, -0)
}
