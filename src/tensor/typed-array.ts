/**
 * What a typed array is, whatever its object says: a subclass, a property of its own or a changed prototype may say
 * anything, and what it says would decide whose bytes a request is answered with. Of another realm it is one, too.
 */

type TypedArrayConstructor<T> = new (
  buffer: ArrayBufferLike | number,
  byteOffset?: number,
  length?: number,
) => T

const constructors = new Map(
  [
    Float32Array, Float64Array, Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array,
  ].map((Storage) => [Storage.name, Storage] as const), // prettier-ignore
)

const prototype = Object.getPrototypeOf(Uint8Array.prototype) as object
const intrinsic = <T>(name: string | symbol) =>
  Object.getOwnPropertyDescriptor(prototype, name)!.get as (this: unknown) => T

const kind = intrinsic<string | undefined>(Symbol.toStringTag)
const length = intrinsic<number>('length')
const byteOffset = intrinsic<number>('byteOffset')
const buffer = intrinsic<ArrayBufferLike>('buffer')

/** The name of the constructor whose elements it has, such as `'Float32Array'`; `undefined` for what is no typed array. */
export function kindOf(value: unknown): string | undefined {
  return kind.call(value)
}

/** Elements there are now: 0 when the buffer was detached, or is too short by now. */
export function lengthOf(data: ArrayBufferView): number {
  return length.call(data)
}

/** Whether the buffer has no byte, as one has that was detached. */
export function isEmptied(data: ArrayBufferView): boolean {
  return lengthOf(data) === 0 && buffer.call(data).byteLength === 0
}

/** A view of the same elements as they are now, with nothing about it that is the caller's own. */
export function plainView<T extends ArrayBufferView>(data: T): T {
  return viewAs(constructors.get(kindOf(data)!)! as unknown as TypedArrayConstructor<T>, data)
}

/** The same with elements of another kind, of the same size. */
export function viewAs<T>(Storage: TypedArrayConstructor<T>, data: ArrayBufferView): T {
  const elements = lengthOf(data)
  // Over a detached buffer not even an empty view can be made.
  return elements === 0 ? new Storage(0) : new Storage(buffer.call(data), byteOffset.call(data), elements)
}
