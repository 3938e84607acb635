import { isPlainObject } from '../config/plain-options.ts'
import { readText } from './inference-records.ts'
import { BadRecord } from './record-reader.ts'
import { toText } from './tagged-json.ts'

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
export function readMessage<T>(body: Buffer, fields: { readonly [Field in keyof T]?: 'number' | 'string' | 'boolean' | 'object' }): T {
  const message = readText(body.toString())
  if (!isPlainObject(message)) throw new BadRecord('a message that is no object')
  for (const field in fields) {
    if (typeof message[field] !== fields[field]) throw new BadRecord(`a message whose ${field} is no ${fields[field]}`)
  }
  return message as T
}

export const messageText = (message: Hello | Welcome | Call | CallResult): string => toText(message)
