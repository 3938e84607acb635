import { Buffer } from 'node:buffer'
import type { Classification } from '../classification.ts'
import { invalidArgument } from '../errors.ts'
import { numbersText } from '../exact-json.ts'
import { toStorage, type ElementType, type TensorData } from '../tensor.ts'
import { textBytes } from './binary-elements.ts'
import { datatypeOf, isBinaryOnly } from './datatypes.ts'

/** One output of an answer: what its JSON says of it, and its bytes where they are not in that. */
export interface OutputPart {
  /** JSON. */
  readonly text: string
  readonly bytes: Uint8Array | null
}

/** A tensor as the engine answers with it. */
export interface AnsweredTensor {
  readonly type: ElementType
  readonly dims: readonly number[]
  readonly data: unknown
}

/**
 * Writes a tensor. Its bytes are those of the answer itself.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for what JSON cannot have.
 */
export function outputPart(name: string, { type, dims, data }: AnsweredTensor, binary: boolean): OutputPart {
  const about = { name, datatype: datatypeOf(type), shape: dims }
  if (!binary) return { text: `${JSON.stringify(about).slice(0, -1)},"data":${dataText(name, type, data)}}`, bytes: null }
  const bytes = type === 'string' ? textBytes(data as string[]) : bytesOf(toStorage(type, data)!)
  return { text: JSON.stringify({ ...about, parameters: { binary_data_size: bytes.byteLength } }), bytes }
}

/** The classes of each row, as `value:index` and, where it has one, `:label`. */
export function classesPart(name: string, rows: readonly (readonly Classification[])[], isBatched: boolean, binary: boolean): OutputPart {
  const texts = rows.map((row) => row.map(({ value, index, label }) => `${value}:${index}${label === undefined ? '' : `:${label}`}`))
  const count = texts[0]?.length ?? 0
  return outputPart(name, { type: 'string', dims: isBatched ? [rows.length, count] : [count], data: texts.flat() }, binary)
}

function dataText(name: string, type: ElementType, data: unknown): string {
  const refuse = (expected: string, received: string) => invalidArgument(`outputs '${name}'`, expected, received, { hint: 'Ask for it with parameters { binary_data: true }' })
  if (type === 'string') return JSON.stringify(data)
  if (isBinaryOnly(type)) throw refuse('to be asked for as binary data', `JSON, which has no numbers of ${datatypeOf(type)}`)
  const elements = data as TensorData
  if (type === 'bool') return `[${Array.from(elements as Uint8Array, (element) => element !== 0).join()}]`
  return `[${numbersText(elements)}]`
}

function bytesOf({ buffer, byteOffset, byteLength }: TensorData): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
}
