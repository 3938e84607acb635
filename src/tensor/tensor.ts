import { Tensor } from 'onnxruntime-common'
import { isSmallFloat } from './small-floats.ts'

export { Tensor }

/** Element types that a `Tensor` may have; ONNX Runtime's own names. */
export type TensorType =
  | 'float32'
  | 'float64'
  | 'float16'
  | 'int8'
  | 'uint8'
  | 'int16'
  | 'uint16'
  | 'int32'
  | 'uint32'
  | 'int64'
  | 'uint64'
  | 'bool'
  | 'string'

/**
 * Element types for which JavaScript has no array: they travel as raw bits, in a `Uint16Array` (`bfloat16`) or a
 * `Uint8Array`, where two of 4 bits share a byte; see {@link RawTensor}.
 */
export type RawType =
  | 'bfloat16'
  | 'float8e4m3fn'
  | 'float8e4m3fnuz'
  | 'float8e5m2'
  | 'float8e5m2fnuz'
  | 'int4'
  | 'uint4'

/** Element types a request may carry; those of {@link RawType} with the native executor only. */
export type ElementType = TensorType | RawType

/**
 * A tensor of raw bits, as it is given and answered: a plain object. Elements lie in row-major order; of `int4` and
 * `uint4` two share a byte, the first in its low half. They run on over the whole tensor: a row does not begin a new byte.
 * A half byte at the end that belongs to no element is 0 in answers, and ignored in inputs.
 */
export interface RawTensor<T extends RawType = RawType> {
  /** The type of its elements. */
  readonly type: T
  /** The batch dimension included. They count elements, not bytes. */
  readonly dims: readonly number[]
  /** The bits of its elements. */
  readonly data: T extends 'bfloat16' ? Uint16Array : Uint8Array
}

/** Any typed array that can back a tensor. `Float16Array` (Node 24 and newer) is accepted for `float16`. */
export type TensorData =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array

interface TensorDataConstructor {
  readonly BYTES_PER_ELEMENT: number
  readonly name: string
  new (length: number): TensorData
  new (buffer: ArrayBufferLike, byteOffset?: number, length?: number): TensorData
  /** Takes bigints for integers of 64 bits, and numbers for all others. */
  from(elements: ArrayLike<number | bigint>): TensorData
}

/** How a type lies in memory, its number in `TensorProto.DataType`, and the bits of an element. */
type Layout = readonly [Storage: TensorDataConstructor, number: number, bits: number]

/** A new type goes last: its place in {@link numericTypes} is its number in messages between processes. */
const rawLayouts: Readonly<Record<RawType, Layout>> = {
  bfloat16: [Uint16Array, 16, 16],
  float8e4m3fn: [Uint8Array, 17, 8],
  float8e4m3fnuz: [Uint8Array, 18, 8],
  float8e5m2: [Uint8Array, 19, 8],
  float8e5m2fnuz: [Uint8Array, 20, 8],
  int4: [Uint8Array, 22, 4],
  uint4: [Uint8Array, 21, 4],
}

/**
 * All that the engine knows of a numeric type, except the formats of floats of less than 32 bits: those are in `small-floats.ts`.
 * `float16` is kept as its 16 raw bits, `bool` as one byte.
 */
export const layouts: Readonly<Record<Exclude<ElementType, 'string'>, Layout>> = {
  float32: [Float32Array, 1, 32],
  float64: [Float64Array, 11, 64],
  float16: [Uint16Array, 10, 16],
  int8: [Int8Array, 3, 8],
  uint8: [Uint8Array, 2, 8],
  int16: [Int16Array, 5, 16],
  uint16: [Uint16Array, 4, 16],
  int32: [Int32Array, 6, 32],
  uint32: [Uint32Array, 12, 32],
  int64: [BigInt64Array, 7, 64],
  uint64: [BigUint64Array, 13, 64],
  bool: [Uint8Array, 9, 8],
  ...rawLayouts,
}

/** All numeric types. The index of a type is its number in messages between processes. */
export const numericTypes = Object.keys(layouts) as readonly (keyof typeof layouts)[]

/** All types of {@link RawTensor}. */
export const rawTypes: ReadonlySet<ElementType> = new Set(Object.keys(rawLayouts) as RawType[])

/** The typed arrays that tensors lie in, by name. */
export const typedArrays: ReadonlyMap<string, TensorDataConstructor> = new Map(
  Object.values(layouts).map(([Storage]) => [Storage.name, Storage]),
)

/** True for element types that tensors of requests can have. */
export function isElementType(type: unknown): type is ElementType {
  return type === 'string' || (typeof type === 'string' && Object.hasOwn(layouts, type))
}

/** True for types whose tensors are a {@link RawTensor} and not a `Tensor`. */
export function isRawType(type: ElementType): type is RawType {
  return rawTypes.has(type)
}

/** True for floats of every width. */
export function isFloatType(type: ElementType): boolean {
  return type === 'float32' || type === 'float64' || isSmallFloat(type)
}

/** Typed-array constructor for a numeric element type. */
export function storageOf(type: ElementType): TensorDataConstructor {
  return layouts[type as keyof typeof layouts]?.[0] // sequences and maps have none
}

/** True for types of 4 bits: two elements share a byte. */
export function isPacked(type: ElementType): boolean {
  return layouts[type as keyof typeof layouts]?.[2] < 8
}

/** Entries of the typed array that hold so many elements. */
export function storageLength(type: ElementType, count: number): number {
  return isPacked(type) ? Math.ceil(count / 2) : count
}

/** Bytes that so many elements take; 0 for `string`, which has no fixed size. */
export function byteLengthOf(type: ElementType, count: number): number {
  return type === 'string' ? 0 : storageLength(type, count) * storageOf(type).BYTES_PER_ELEMENT
}

/**
 * Most bytes of one tensor for one row. Two such rows have the size limit of a `Buffer` in all supported Node.js
 * versions.
 */
export const mostTensorBytes = 2 ** 31

/** Product of `dims`; 1 for a scalar. */
export function elementCount(dims: readonly number[]): number {
  let count = 1
  for (let axis = 0; axis < dims.length; axis++) count *= dims[axis]!
  return count
}

/** A tensor as a caller may give it: ours, or one of another copy of onnxruntime-common. */
export interface TensorLike {
  readonly type: string
  readonly dims: readonly number[]
  readonly data: unknown
  readonly location?: string
}

/** True when `value` has the shape of a tensor, whichever copy of onnxruntime-common made it. */
export function isTensorLike(value: unknown): value is TensorLike {
  return (
    typeof value === 'object' &&
    value !== null &&
    'dims' in value &&
    'type' in value &&
    !ArrayBuffer.isView(value)
  )
}

/** Whether the data of a tensor can be read from here. A plain object has no location. */
export function isOnCpu(location: string | undefined): boolean {
  return location === undefined || location === 'cpu' || location === 'cpu-pinned'
}

/** An input or output that travels by message. */
export interface MailedTensor {
  readonly type: ElementType
  readonly dims: readonly number[]
  /** Strings, or the raw bytes of the elements. */
  readonly data: readonly string[] | ArrayBuffer
}

/** The kind of typed array that each numeric type is stored in. */
const kinds = Object.fromEntries(Object.entries(layouts).map(([type, [{ name }]]) => [type, name]))

/**
 * The array as it is stored: a `Float16Array` becomes a view of its raw 16-bit words, every other array itself.
 * Returns `null` when the array cannot back `type`.
 */
export function toStorage(type: ElementType, data: unknown): TensorData | null {
  const kind = kindOf(data)
  if (kind !== undefined && kind === kinds[type]) return data as TensorData
  return type === 'float16' && kind === 'Float16Array' ? viewAs(Uint16Array, data as Uint16Array) : null
}

const uninitialisedFromBytes = 4096

/** An own copy of `data[start, end)`. Large ones skip the zero-filling of new memory, which costs as much as the copy. */
export function copyOf(data: TensorData, start: number, end: number): TensorData {
  const byteLength = (end - start) * data.BYTES_PER_ELEMENT
  if (byteLength < uninitialisedFromBytes) return data.slice(start, end)
  const copy = new (data.constructor as TensorDataConstructor)(
    Buffer.allocUnsafeSlow(byteLength).buffer,
  ) as Float32Array
  copy.set((data as Float32Array).subarray(start, end))
  return copy
}

/** Makes the tensor a caller receives. `data` must be of the storage type of `type`. */
export function makeTensor(
  type: ElementType,
  data: TensorData | string[],
  dims: readonly number[],
): Tensor | RawTensor {
  // Most are float32, and looking a type up takes a tenth of making the tensor.
  if (type !== 'float32' && isRawType(type)) return { type, dims, data: data as Uint8Array } as RawTensor
  return new Tensor(type as 'float32', data as Float32Array, dims)
}

/** Puts a value under its name. Assigning to `__proto__` would change what the object is instead. */
export function putValue<T>(values: Record<string, T>, name: string, value: T): void {
  if (name !== '__proto__') values[name] = value
  else Object.defineProperty(values, name, { value, writable: true, enumerable: true, configurable: true })
}

// What a typed array is, whatever its object says. A subclass, a property of its own or a changed prototype may say anything,
// and that would decide whose bytes a request is answered with. An array of another realm counts as well.

const typedArrayPrototype = Object.getPrototypeOf(Uint8Array.prototype) as object
const intrinsic = <T>(name: string | symbol) =>
  Object.getOwnPropertyDescriptor(typedArrayPrototype, name)!.get as (this: unknown) => T

const readKind = intrinsic<string | undefined>(Symbol.toStringTag)
const readLength = intrinsic<number>('length')
const readByteOffset = intrinsic<number>('byteOffset')
const readBuffer = intrinsic<ArrayBufferLike>('buffer')

/** The name of the constructor whose elements it has, such as `'Float32Array'`; `undefined` for what is no typed array. */
export function kindOf(value: unknown): string | undefined {
  return readKind.call(value)
}

/** Elements there are now: 0 when the buffer was detached, or is too short by now. */
export function lengthOf(data: ArrayBufferView): number {
  return readLength.call(data)
}

/** Fewer elements than were checked would leave in the slot what another caller sent, or put the next rows in the wrong place. */
export function checkElements(data: TensorData, elements: number): void {
  const received = lengthOf(data)
  if (received !== elements)
    throw new Error(`an input that had ${elements} elements when it was checked has ${received} now`)
}

/** Whether the buffer has no byte, as one has that was detached. */
export function isEmptied(data: ArrayBufferView): boolean {
  return lengthOf(data) === 0 && readBuffer.call(data).byteLength === 0
}

/** A view of the same elements as they are now, with nothing about it that is the caller's own. */
export function plainView<T extends ArrayBufferView>(data: T): T {
  const view: ArrayBufferView = viewAs(typedArrays.get(kindOf(data)!)!, data)
  return view as T
}

/** The same with elements of another kind, of the same size. */
export function viewAs(Storage: TensorDataConstructor, data: ArrayBufferView): TensorData {
  const elements = lengthOf(data)
  // Over a detached buffer not even an empty view can be made.
  return elements === 0
    ? new Storage(0)
    : new Storage(readBuffer.call(data), readByteOffset.call(data), elements)
}
