import { isNonFinite, isSmallFloat } from './small-floats.ts'
import { cutElements, joinTensors, mailed, mailedElements } from './elements.ts'
import {
  elementCount,
  isElementType,
  isPacked,
  makeTensor,
  putValue,
  type ElementType,
  type MailedTensor,
  type RawTensor,
  type Tensor,
  type TensorData,
  type TensorLike,
} from './tensor.ts'

/** A value of a map. */
export type MapEntry = number | bigint | string

/** A map: a plain object, or a `Map` where the keys are integers (`bigint`, as the elements of int64 tensors). */
export type MapValue = Map<bigint, MapEntry> | { [key: string]: MapEntry }

/** One output: nearly always a `Tensor`; an optional one that is not there is `null`. */
export type OutputValue = Tensor | RawTensor | MapValue | null | OutputValue[]

/** A value that travels by message: a tensor, or made up of such. */
export type MailedValue = MailedTensor | MailedSequence | MailedMap | MailedMaps | MailedAbsence | MailedRows

interface MailedSequence {
  readonly items: readonly MailedValue[]
}

export interface MailedMap {
  readonly keys: MailedTensor
  readonly values: MailedTensor
}

/** A sequence of maps, with the keys and values of all of them one behind the other. */
export interface MailedMaps extends MailedMap {
  /** How many each map has. */
  readonly entries: readonly number[]
}

/** A tensor whose rows have dims of their own: one tensor for each. */
export interface MailedRows {
  readonly ragged: readonly MailedTensor[]
}

/** An optional value that is not there. */
interface MailedAbsence {
  readonly absent: true
}

export function isMailedTensor(value: MailedValue): value is MailedTensor {
  return 'type' in value
}

/** How many rows a value has, whose tensors count them in dimension `batchAxis`, when it can be divided by rows at all; else `null`. */
export function rowCount(value: MailedValue, batchAxis = 0): number | null {
  if (isMailedTensor(value)) return value.dims[batchAxis] ?? null
  if ('ragged' in value) return value.ragged.length
  return 'items' in value ? value.items.length : 'entries' in value ? value.entries.length : null
}

/** Rows `[start, end)` of a value that has rows; tensors are copied. */
export function cutRows(value: MailedValue, start: number, end: number): MailedValue {
  if (isMailedTensor(value)) {
    const { type, dims } = value
    const elements = elementCount(dims.slice(1))
    const cut = cutElements(type, mailedElements(value), start * elements, end * elements)
    return mailed(type, [end - start, ...dims.slice(1)], cut)
  }
  if ('items' in value) return { items: value.items.slice(start, end) }
  if ('ragged' in value) return { ragged: value.ragged.slice(start, end) }
  if (!('entries' in value)) return value
  const { keys, values, entries } = value
  const from = sum(entries, 0, start)
  const to = from + sum(entries, start, end)
  return {
    keys: cutRows(keys, from, to) as MailedTensor,
    values: cutRows(values, from, to) as MailedTensor,
    entries: entries.slice(start, end),
  }
}

/** What a caller receives. */
export function outputOf(value: MailedValue): OutputValue {
  if (isMailedTensor(value)) return makeTensor(value.type, whole(value), value.dims)
  if ('items' in value) return value.items.map(outputOf)
  if ('ragged' in value) return outputOf(joinRows(value))
  if ('absent' in value) return null
  const { keys, values } = value
  const [names, numbers] = [mailedElements(keys), mailedElements(values)]
  if (!('entries' in value)) return mapOf(names, numbers, 0, names.length)
  let at = 0
  return value.entries.map((count) => mapOf(names, numbers, at, (at += count)))
}

/** Whether all rows have the same dims, and can be one tensor. */
export function isRectangular({ ragged }: MailedRows): boolean {
  const [first, ...others] = ragged
  return others.every(
    ({ dims }) => dims.length === first!.dims.length && dims.every((dim, axis) => dim === first!.dims[axis]),
  )
}

/** The rows as one tensor; there has to be one at least. */
function joinRows({ ragged }: MailedRows): MailedTensor {
  return joinTensors(ragged.map(({ type, dims, data }) => ({ type, dims: [1, ...dims], data })))
}

/** A part of a value, as a tensor of its own for each tensor in it: what of two values is compared. */
export function tensorsIn(value: MailedValue): MailedTensor[] {
  if (isMailedTensor(value)) return [value]
  if ('items' in value) return value.items.flatMap(tensorsIn)
  if ('ragged' in value) return [...value.ragged]
  return 'absent' in value ? [] : [value.keys, value.values]
}

function mapOf(keys: ArrayLike<unknown>, values: ArrayLike<MapEntry>, start: number, end: number): MapValue {
  if (Array.isArray(keys)) {
    const map: { [key: string]: MapEntry } = {}
    for (let at = start; at < end; at++) putValue(map, keys[at] as string, values[at]!)
    return map
  }
  const map = new Map<bigint, MapEntry>()
  for (let at = start; at < end; at++) map.set(keys[at] as bigint, values[at]!)
  return map
}

/** Its own memory as it is; of packed elements a copy, without what belongs to none. */
function whole(tensor: MailedTensor): ReturnType<typeof cutElements> {
  const data = mailedElements(tensor)
  return isPacked(tensor.type) ? cutElements(tensor.type, data, 0, elementCount(tensor.dims)) : data
}

function sum(counts: readonly number[], start: number, end: number): number {
  let total = 0
  for (let at = start; at < end; at++) total += counts[at]!
  return total
}

/** Types of what is no tensor, as `'seq(map(int64, float32))'`, made up of the names of element types. */
export type StructuredType = `seq(${string})` | `map(${string})` | `optional(${string})`

/** Keys of maps: of strings, or of integers. */
type KeyType = 'string' | 'int64'

/** What a type is made up of. */
export type ValueType =
  | { readonly kind: 'tensor'; readonly element: ElementType }
  | { readonly kind: 'seq'; readonly item: ValueType }
  | { readonly kind: 'optional'; readonly item: ValueType }
  /** Its values are numbers or strings. */
  | { readonly kind: 'map'; readonly key: KeyType; readonly value: ElementType }

/** Reads the name of a type; `null` for what cannot be carried. */
export function valueTypeOf(name: string): ValueType | null {
  if (isElementType(name)) return { kind: 'tensor', element: name }
  const [, kind, inner] = /^(seq|optional)\((.+)\)$/.exec(name) ?? []
  if (inner !== undefined) {
    const item = valueTypeOf(inner)
    return item && { kind: kind as 'seq' | 'optional', item }
  }
  const [, key, value] = /^map\((string|int64), (\w+)\)$/.exec(name) ?? []
  return isElementType(value) ? { kind: 'map', key: key as KeyType, value } : null
}

/** Index of the first NaN or infinity in floating-point data; -1 for none. */
export function firstNonFinite(type: ElementType, data: TensorData | readonly string[]): number {
  if (isSmallFloat(type)) return (data as Uint16Array).findIndex((bits) => isNonFinite(type, bits))
  if (type !== 'float32' && type !== 'float64') return -1
  const numbers = data as Float32Array
  // x - x is 0 for a finite x and NaN otherwise; one look at a sum is enough for data without any.
  let sum = 0
  for (let index = 0; index < numbers.length; index++) sum += numbers[index]! - numbers[index]!
  return sum === 0 ? -1 : numbers.findIndex((value) => !Number.isFinite(value))
}

/** Whether NaN or infinity is anywhere in a value. */
export function hasNonFinite(value: OutputValue | MapEntry): boolean {
  if (typeof value !== 'object' || value === null) return typeof value === 'number' && !Number.isFinite(value)
  if (Array.isArray(value)) return value.some(hasNonFinite)
  if (value instanceof Map) return [...value.values()].some(hasNonFinite)
  if (!Array.isArray((value as TensorLike).dims)) return Object.values(value).some(hasNonFinite)
  const { type, data } = value as TensorLike
  // Newer Node shows float16 as numbers, older as bits.
  const values = data as TensorData | string[]
  const shownType = type === 'float16' && !(values instanceof Uint16Array) ? 'float32' : type
  return firstNonFinite(shownType as 'float32', values) !== -1
}
