import { invalidArgument, type InferenceError } from '../errors.ts'
import type { ValueMetadata } from '../tensor/metadata.ts'
import {
  plainView,
  storageOf,
  type ElementType,
  type MailedTensor,
  type TensorData,
} from '../tensor/tensor.ts'
import { valueTypeOf, type MailedMap, type MailedValue, type ValueType } from '../tensor/values.ts'
import { InputReader, type GivenInput, type ReadOptions } from './input-reader.ts'

/** Reads and checks what requests give for an input that is no tensor: a sequence, a map, or something optional. */
export class StructuredReader {
  readonly name: string
  readonly optional: boolean
  /** Whether `null` says that it is not given. */
  readonly nullable: boolean
  readonly fixedShape = true // what lies in the slot; this does not
  readonly #model: string
  readonly #type: ValueType
  readonly #options: ReadOptions

  constructor(model: string, { name, type }: ValueMetadata, options: ReadOptions) {
    this.name = name
    this.#model = model
    this.#type = valueTypeOf(type)!
    this.nullable = this.#type.kind === 'optional'
    this.optional = options.optional || this.nullable
    this.#options = { ...options, batchAxis: -1 }
  }

  /** Nothing but where it is: it has no dims. */
  read(value: unknown): GivenInput {
    return { dims: [], data: value }
  }

  /**
   * The value as it goes to the run, in a copy.
   *
   * @throws InferenceError `ERR_INVALID_ARG` when it is not of the input's type.
   */
  check({ data }: GivenInput): MailedValue {
    return this.#value(this.name, this.#type, data)
  }

  #value(name: string, type: ValueType, value: unknown): MailedValue {
    if (type.kind === 'tensor') return this.#tensor(name, type.element, value)
    if (type.kind === 'optional') return this.#value(name, type.item, value)
    if (type.kind === 'map') return this.#map(name, type.key, type.value, value)
    if (!Array.isArray(value)) throw this.#invalid(name, 'an array', value)
    // ONNX Runtime's C API cannot make an empty one.
    if (value.length === 0) throw this.#invalid(name, 'an array of one value or more', 'an empty one')
    return {
      items: Array.from(value, (item: unknown, index) => this.#value(`${name}[${index}]`, type.item, item)),
    }
  }

  #tensor(name: string, type: ElementType, value: unknown): MailedTensor {
    const reader = new InputReader(this.#model, { name, type, shape: [] }, this.#options)
    const given = reader.read(value)
    const data = reader.check(given)
    return { type, dims: given.dims, data: ArrayBuffer.isView(data) ? copied(data) : data }
  }

  #map(name: string, key: 'string' | 'int64', type: ElementType, value: unknown): MailedMap {
    if (typeof value !== 'object' || value === null)
      throw this.#invalid(name, key === 'string' ? 'an object' : 'a Map', value)
    if (key === 'int64' && !(value instanceof Map))
      throw this.#invalid(name, 'a Map with integers for keys', value)
    const entries: [unknown, unknown][] =
      value instanceof Map ? [...(value as Map<unknown, unknown>)] : Object.entries(value)
    const wrong = entries.find(([own]) =>
      key === 'string' ? typeof own !== 'string' : typeof own !== 'bigint' && !Number.isSafeInteger(own),
    )
    if (wrong !== undefined)
      throw this.#invalid(name, key === 'string' ? 'strings for keys' : 'integers for keys', wrong[0])
    const dims = [entries.length]
    const keys = entries.map(([own]) => own)
    const keyData =
      key === 'string' ? (keys as string[]) : copied(BigInt64Array.from(keys as (bigint | number)[], BigInt))
    const data = type === 'string' ? entries.map(([, own]) => own) : this.#numbers(name, type, entries)
    return {
      keys: { type: key, dims, data: keyData },
      values: this.#tensor(name, type, { type, dims, data }),
    }
  }

  #numbers(name: string, type: ElementType, entries: readonly [unknown, unknown][]): TensorData {
    const wide = type === 'int64' || type === 'uint64'
    const values = entries.map(([key, value]) => {
      if (
        typeof value === 'number' ? !wide || Number.isSafeInteger(value) : wide && typeof value === 'bigint'
      )
        return wide ? BigInt(value as number) : value
      throw this.#invalid(`${name}[${String(key)}]`, `a number of type ${type}`, value)
    })
    return storageOf(type).from(values as number[])
  }

  #invalid(name: string, expected: string, received: unknown): InferenceError {
    return invalidArgument(`input '${name}'`, expected, received, { model: this.#model })
  }
}

function copied(data: TensorData | BigInt64Array): ArrayBuffer {
  const { buffer, byteOffset, byteLength } = plainView(data as TensorData)
  return new Uint8Array(new Uint8Array(buffer, byteOffset, byteLength)).buffer
}
