import { isPlainObject } from '../../options/plain-options.ts'
import { invalidArgument } from '../../errors.ts'
import type { Pieces } from '../../base/slices.ts'
import { frameKinds, frameOf, textFrame } from './frames.ts'
import { readText, textPieces } from './inference-records.ts'
import { BadRecord } from './record-reader.ts'
import { aligned } from './record-views.ts'
import { toText, toTextAndBytes } from './tagged-json.ts'

/** Raised whenever frames or records, or what they mean, change. */
export const protocolVersion = 1

/** What a client says first. */
export interface Hello {
  readonly protocol: number
  readonly version: string
  /** Whether it can take shared memory. */
  readonly sharesMemory: boolean
}

/** What a serving process says to that. */
export interface Welcome {
  readonly protocol: number
  readonly version: string
  readonly process: number
  /** Bytes of each ring in the memory that comes with it; 0 for none. */
  readonly ringBytes: number
  /** Of one client at once. */
  readonly maxRequests: number
  readonly maxBytes: number
}

/** Calls that one client may have in flight. */
export const mostCalls = 1024

/** Bytes of the text of a call. */
export const mostCallBytes = 2 ** 20

/** What a client asks for beside inference. */
export interface Call {
  readonly id: number
  readonly method: string
  readonly args: readonly unknown[]
}

/** What it is told: one of both. */
export interface CallResult {
  readonly id: number
  readonly value?: unknown
  readonly error?: unknown
}

/** @throws BadRecord */
export function readMessage<T>(
  body: Buffer,
  fields: { readonly [Field in keyof T]?: 'number' | 'string' | 'boolean' | 'object' },
): T {
  return checkMessage(readText(body.toString()), fields)
}

/** @throws BadRecord */
export function checkMessage<T>(
  message: unknown,
  fields: { readonly [Field in keyof T]?: 'number' | 'string' | 'boolean' | 'object' },
): T {
  if (!isPlainObject(message)) throw new BadRecord('a message that is no object')
  for (const field in fields) {
    if (typeof message[field] !== fields[field])
      throw new BadRecord(`a message whose ${field} is no ${fields[field]}`)
  }
  return message as T
}

/** Where the bytes of a call begin, behind its text and the length of that. */
const bytesStart = (textBytes: number): number => aligned(4 + textBytes)

/** The frame of a call: large bytes are in it as they are. */
export function callFrameOf(call: Call): Buffer {
  const { text, arrays } = toTextAndBytes(call)
  const textBytes = Buffer.byteLength(text)
  if (textBytes > mostCallBytes)
    throw invalidArgument(
      `arguments of ${call.method}()`,
      `at most ${mostCallBytes} bytes beside typed arrays`,
      textBytes,
    )
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

/** Reads a call in pieces. Its bytes are where they are in the frame. @throws BadRecord */
export function* callPieces(kind: number, body: Buffer): Pieces<Call> {
  const fields = { id: 'number', method: 'string', args: 'object' } as const
  const isText = kind === frameKinds.call
  const textBytes = isText ? body.length : body.length < 4 ? Infinity : body.readUInt32LE(0)
  if (textBytes > mostCallBytes || (!isText && bytesStart(textBytes) > body.length))
    throw new BadRecord('a call with too long a text')
  const text = isText ? body : body.subarray(4, 4 + textBytes)
  return checkMessage<Call>(
    yield* textPieces(text, isText ? undefined : body.subarray(bytesStart(textBytes))),
    fields,
  )
}

export const messageText = (message: Hello | Welcome | Call | CallResult): string => toText(message)
