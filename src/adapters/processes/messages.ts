import type { Pieces } from '../../base/slices.ts'
import { invalidArgument } from '../../errors.ts'
import { isPlainObject } from '../../options/plain-options.ts'
import { aligned, BadRecord } from './records.ts'
import {
  mostNames,
  mostValues,
  readText,
  textPieces,
  toText,
  toTextAndBytes,
  writtenPieces,
} from './tagged-json.ts'

/** Raise it whenever frames or records, or their meaning, change. */
export const protocolVersion = 1

/** The first message of a client. */
export interface Hello {
  readonly protocol: number
  readonly version: string
  /** Whether the client can use shared memory. */
  readonly sharesMemory: boolean
}

/** The reply of a serving process to {@link Hello}. */
export interface Welcome {
  readonly protocol: number
  readonly version: string
  readonly process: number
  /** Bytes of each ring in the shared memory that comes with it; 0 for none. */
  readonly ringBytes: number
  /** Most requests of one client at once. */
  readonly maxRequests: number
  readonly maxBytes: number
}

/** Most bytes of a frame before the peer has introduced itself. */
export const greetingBytes = 65_536

/** Most calls of one client in flight. */
export const mostCalls = 1024

/** Most bytes of a call's text. */
const mostCallBytes = 2 ** 20

/** A client's call of any method other than `infer`. */
export interface Call {
  readonly id: number
  readonly method: string
  readonly args: readonly unknown[]
}

/** The result of a call: a value or an error. */
export interface CallResult {
  readonly id: number
  readonly value?: unknown
  readonly error?: unknown
}

/** The types of a message's fields. */
type FieldTypes<T> = { readonly [Field in keyof T]?: 'number' | 'string' | 'boolean' | 'object' }

/** @throws BadRecord */
export const readMessage = <T>(body: Buffer, fields: FieldTypes<T>): T =>
  checkMessage(readText(body.toString()), fields)

/** @throws BadRecord */
function checkMessage<T>(message: unknown, fields: FieldTypes<T>): T {
  if (!isPlainObject(message)) throw new BadRecord('a message that is not an object')
  for (const field in fields) {
    if (typeof message[field] !== fields[field])
      throw new BadRecord(`a message whose ${field} is no ${fields[field]}`)
  }
  return message as T
}

/** Offset of a call's bytes, after its text and the text's length. */
const bytesStart = (textBytes: number): number => aligned(4 + textBytes)

/** The frame of a call. It contains large bytes unchanged. */
export function callFrameOf(call: Call): Buffer {
  const { text, arrays, names, values } = toTextAndBytes(call)
  const textBytes = Buffer.byteLength(text)
  const check = (count: number, most: number, what: string) => {
    if (count > most) throw invalidArgument(`arguments of ${call.method}()`, `at most ${most} ${what}`, count)
  }
  check(textBytes, mostCallBytes, 'bytes beside typed arrays')
  check(names, mostNames, 'names in all objects')
  check(names + values, mostValues, 'names and values')
  if (arrays.length === 0) return textFrame(frameKinds.call, text)
  const start = bytesStart(textBytes)
  const frame = frameOf(
    frameKinds.callWithBytes,
    arrays.reduce((at, { byteLength }) => at + aligned(byteLength), start),
  ).fill(0, 8, 8 + start)
  frame.writeUInt32LE(textBytes, 8)
  frame.write(text, 12)
  let at = 8 + start
  for (const array of arrays) {
    frame.set(array, at)
    frame.fill(0, at + array.byteLength, (at += aligned(array.byteLength)))
  }
  return frame
}

/** Reads a call in pieces. Its bytes are views on the frame. @throws BadRecord */
export function* callPieces(kind: number, body: Buffer): Pieces<Call> {
  const fields = { id: 'number', method: 'string', args: 'object' } as const
  const isText = kind === frameKinds.call
  const textBytes = isText ? body.length : body.length < 4 ? Infinity : body.readUInt32LE(0)
  if (textBytes > mostCallBytes || (!isText && bytesStart(textBytes) > body.length))
    throw new BadRecord('a call whose text is too long')
  const text = isText ? body : body.subarray(4, 4 + textBytes)
  return checkMessage<Call>(
    yield* textPieces(text, isText ? undefined : body.subarray(bytesStart(textBytes))),
    fields,
  )
}

export const messageText = (message: Hello | Welcome | Call | CallResult): string => toText(message)

/** Like {@link messageText}, in pieces. */
export function* resultPieces(result: CallResult): Pieces<string> {
  return (yield* writtenPieces(result))!
}

/** Asks a serving process for a sign of life. */
export const aliveCall = messageText({ id: 0, method: 'alive', args: [] })
/** The sign of life. It is the result of no call that the client knows. */
export const aliveResult = messageText({ id: 0 })

/** Kinds of frames on a socket. The numbers never change. */
export const frameKinds = {
  hello: 1,
  welcome: 2,
  refusal: 3,
  call: 4,
  result: 5,
  withdrawal: 6,
  record: 7,
  callWithBytes: 8,
  callWithdrawal: 9,
} as const

/** Bytes of the length and the kind. */
const headBytes = 8

/** A frame of text. */
export function textFrame(kind: number, text: string): Buffer {
  const length = Buffer.byteLength(text)
  const frame = frameOf(kind, length)
  frame.write(text, headBytes)
  return frame
}

/** A frame with an empty body of this length, after 8 bytes of head, in its own memory. */
export function frameOf(kind: number, byteLength: number): Buffer {
  const frame = Buffer.allocUnsafeSlow(headBytes + byteLength)
  frame.writeUInt32LE(byteLength, 0)
  frame.writeUInt32LE(kind, 4)
  return frame
}

/** A frame of at most this many bytes is read into memory of its final size. */
const wholeBytes = 2 ** 18
/**
 * How much more memory a longer frame gets whenever what it has is full. With 8, a seventh of the frame is copied once
 * more.
 */
const growth = 8

/**
 * Splits the data of a socket into frames. The memory of a long frame grows with what has arrived: a frame that is
 * announced and never sent takes little, and gives the garbage collector little to do.
 */
export class FrameReader {
  readonly #onFrame: (kind: number, body: Buffer) => void
  readonly #head = Buffer.alloc(headBytes)
  #headLength = 0
  #body: Buffer | null = null
  /** Bytes of the body that have arrived. */
  #arrived = 0
  /** Bytes of the whole body. */
  #length = 0
  /** Longer frames are refused before memory is allocated for them. */
  mostBytes: number

  /** @param onFrame receives the body, in its own memory. */
  constructor(mostBytes: number, onFrame: (kind: number, body: Buffer) => void) {
    this.mostBytes = mostBytes
    this.#onFrame = onFrame
  }

  /** @throws BadRecord for a frame that is longer than allowed. */
  push(chunk: Uint8Array): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#body === null) at = this.#readHead(chunk, at)
      if (this.#body === null) continue // no body, or not begun
      if (this.#arrived === this.#body.length) this.#body = this.#grown(this.#body)
      const part = chunk.subarray(at, at + this.#body.length - this.#arrived)
      this.#body.set(part, this.#arrived)
      this.#arrived += part.length
      at += part.length
      if (this.#arrived === this.#length) this.#finish(this.#body)
    }
  }

  #grown(body: Buffer): Buffer {
    const grown = Buffer.allocUnsafeSlow(Math.min(this.#length, body.length * growth))
    grown.set(body)
    return grown
  }

  #readHead(chunk: Uint8Array, at: number): number {
    const part = chunk.subarray(at, at + headBytes - this.#headLength)
    this.#head.set(part, this.#headLength)
    this.#headLength += part.length
    if (this.#headLength < headBytes) return at + part.length
    const length = this.#head.readUInt32LE(0)
    if (length > this.mostBytes)
      throw new BadRecord(`a frame of ${length} bytes, expected at most ${this.mostBytes}`)
    let firstBytes = length
    while (firstBytes > wholeBytes) firstBytes = Math.ceil(firstBytes / growth)
    this.#body = Buffer.allocUnsafeSlow(firstBytes)
    this.#arrived = 0
    this.#length = length
    if (length === 0) this.#finish(this.#body)
    return at + part.length
  }

  #finish(body: Buffer): void {
    this.#body = null
    this.#headLength = 0
    this.#onFrame(this.#head.readUInt32LE(4), body)
  }
}
