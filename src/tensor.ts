import { Tensor } from 'onnxruntime-common'
import { kindOf, viewAs } from './typed-array.ts'

/** Element types a request may carry; ONNX Runtime's own names. */
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
}

/** How each numeric type lies in memory. `float16` is kept as its 16 raw bits, `bool` as one byte. */
const storage: Readonly<Record<Exclude<TensorType, 'string'>, TensorDataConstructor>> = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
}

/** True for the element types that this library can carry. */
export function isTensorType(type: unknown): type is TensorType {
  return type === 'string' || (typeof type === 'string' && Object.hasOwn(storage, type))
}

/** Typed-array constructor for a numeric element type. */
export function storageOf(type: TensorType): TensorDataConstructor {
  return storage[type as Exclude<TensorType, 'string'>]
}

/** Bytes of one element; 0 for `string`, which has no fixed size. */
export function bytesPerElement(type: TensorType): number {
  return type === 'string' ? 0 : storageOf(type).BYTES_PER_ELEMENT
}

/** Product of `dims`; 1 for a scalar. */
export function elementCount(dims: readonly number[]): number {
  let count = 1
  for (let axis = 0; axis < dims.length; axis++) count *= dims[axis]!
  return count
}

/** A tensor as a caller may hand it in: ours, or one of another copy of onnxruntime-common. */
export interface TensorLike {
  readonly type: string
  readonly dims: readonly number[]
  readonly data: unknown
  readonly location?: string
}

/** True when `value` has the shape of a tensor, whichever copy of onnxruntime-common made it. */
export function isTensorLike(value: unknown): value is TensorLike {
  return typeof value === 'object' && value !== null && 'dims' in value && 'type' in value && !ArrayBuffer.isView(value)
}

/** An input or output that travels by message. */
export interface MailedTensor {
  readonly type: TensorType
  readonly dims: readonly number[]
  /** Strings, or the raw bytes of the elements. */
  readonly data: readonly string[] | ArrayBuffer
}

/** The kind of typed array that each numeric type is stored in. */
const kinds = Object.fromEntries(Object.entries(storage).map(([type, { name }]) => [type, name]))

/**
 * The array as it is stored: a `Float16Array` becomes a view of its raw 16-bit words, every other array itself.
 * Returns `null` when the array cannot back `type`.
 */
export function toStorage(type: TensorType, data: unknown): TensorData | null {
  const kind = kindOf(data)
  if (kind !== undefined && kind === kinds[type]) return data as TensorData
  return type === 'float16' && kind === 'Float16Array' ? viewAs(Uint16Array, data as Uint16Array) : null
}

/** Index of the first NaN or infinity in floating-point data; -1 for none. */
export function firstNonFinite(type: TensorType, data: TensorData | readonly string[]): number {
  if (type === 'float16') return (data as Uint16Array).findIndex((bits) => (bits & 0x7c00) === 0x7c00)
  if (type !== 'float32' && type !== 'float64') return -1
  const numbers = data as Float32Array
  // x - x is 0 for a finite x and NaN otherwise; one look at a sum is enough for data without any.
  let sum = 0
  for (let index = 0; index < numbers.length; index++) sum += numbers[index]! - numbers[index]!
  return sum === 0 ? -1 : numbers.findIndex((value) => !Number.isFinite(value))
}

const uninitialisedFromBytes = 4096

/** An own copy of `data[start, end)`. Large ones skip the zero-filling of new memory, which costs as much as the copy. */
export function copyOf(data: TensorData, start: number, end: number): TensorData {
  const byteLength = (end - start) * data.BYTES_PER_ELEMENT
  if (byteLength < uninitialisedFromBytes) return data.slice(start, end)
  const copy = new (data.constructor as TensorDataConstructor)(Buffer.allocUnsafeSlow(byteLength).buffer) as Float32Array
  copy.set((data as Float32Array).subarray(start, end))
  return copy
}

/** Makes the tensor a caller receives. `data` must be of the storage type of `type`. */
export function makeTensor(type: TensorType, data: TensorData | string[], dims: readonly number[]): Tensor {
  return new Tensor(type as 'float32', data as Float32Array, dims)
}

/** Puts a tensor under its name. Assigning to `__proto__` would change what the object is instead. */
export function putTensor(outputs: Record<string, Tensor>, name: string, tensor: Tensor): void {
  if (name !== '__proto__') outputs[name] = tensor
  else Object.defineProperty(outputs, name, { value: tensor, writable: true, enumerable: true, configurable: true })
}

export { Tensor }
