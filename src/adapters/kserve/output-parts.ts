import { Buffer } from 'node:buffer'
import type { Classification } from '../../engine/classification.ts'
import { invalidArgument, type InferenceError } from '../../errors.ts'
import { numbersText } from './exact-json.ts'
import type { Pieces } from '../../base/slices.ts'
import { toStorage, type ElementType, type TensorData } from '../../tensor/tensor.ts'
import { textBytes } from './binary-elements.ts'
import { datatypeOf, isBinaryOnly } from './datatypes.ts'

/** Elements that are written in one piece at most. */
const pieceElements = 2 ** 12
/** A part of JSON has about so many characters. */
const partLength = 2 ** 15

/** One output of an answer: what its JSON says of it, and its bytes where they are not in that. */
export interface OutputPart {
  /** JSON, in parts. */
  readonly json: readonly Uint8Array[]
  readonly bytes: Uint8Array | null
}

/** A tensor as the engine answers with it. */
export interface AnsweredTensor {
  readonly type: ElementType
  readonly dims: readonly number[]
  readonly data: unknown
}

/**
 * Writes a tensor, in pieces. Its bytes are those of the answer itself.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for what JSON cannot have.
 */
export function* outputPart(
  name: string,
  { type, dims, data }: AnsweredTensor,
  binary: boolean,
): Pieces<OutputPart> {
  const about = { name, datatype: datatypeOf(type), shape: dims }
  if (!binary)
    return { json: yield* dataJson(JSON.stringify(about).slice(0, -1), name, type, data), bytes: null }
  const bytes = type === 'string' ? textBytes(data as string[]) : bytesOf(toStorage(type, data)!)
  return {
    json: [Buffer.from(JSON.stringify({ ...about, parameters: { binary_data_size: bytes.byteLength } }))],
    bytes,
  }
}

/** The classes of each row, as `value:index` and, where it has one, `:label`. */
export function classesPart(
  name: string,
  rows: readonly (readonly Classification[])[],
  isBatched: boolean,
  binary: boolean,
): Pieces<OutputPart> {
  const texts = rows.map((row) =>
    row.map(({ value, index, label }) => `${value}:${index}${label === undefined ? '' : `:${label}`}`),
  )
  const count = texts[0]?.length ?? 0
  return outputPart(
    name,
    { type: 'string', dims: isBatched ? [rows.length, count] : [count], data: texts.flat() },
    binary,
  )
}

function* dataJson(about: string, name: string, type: ElementType, data: unknown): Pieces<Uint8Array[]> {
  if (isBinaryOnly(type))
    throw refusal(name, 'to be asked for as binary data', `JSON, which has no numbers of ${datatypeOf(type)}`)
  const elements = data as TensorData | string[]
  const parts: Uint8Array[] = []
  let text = `${about},"data":[`
  for (let at = 0; at < elements.length; at += pieceElements) {
    if (at > 0) text += ','
    text += elementsText(type, elements.slice(at, at + pieceElements))
    if (text.length < partLength) continue
    parts.push(Buffer.from(text))
    text = ''
    yield
  }
  return [...parts, Buffer.from(`${text}]}`)]
}

function elementsText(type: ElementType, elements: TensorData | string[]): string {
  if (type === 'string') return JSON.stringify(elements).slice(1, -1)
  if (type === 'bool') return Array.from(elements as Uint8Array, (element) => element !== 0).join()
  return numbersText(elements as TensorData)
}

function refusal(name: string, expected: string, received: string): InferenceError {
  return invalidArgument(`outputs '${name}'`, expected, received, {
    hint: 'Ask for it with parameters { binary_data: true }',
  })
}

function bytesOf({ buffer, byteOffset, byteLength }: TensorData): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
}
