import { isProxy, isTypedArray } from 'node:util/types'

/**
 * The stable codes of {@link InferenceError}, each with its class, when it is thrown, and what to do. Classes: `request`
 * (one call is wrong), `load` (the model or the machine is not as it has to be), `overload`, `lifecycle` (something has ended
 * or has not begun), `run`.
 */
export interface ErrorCodes {
  /**
   * An argument is wrong: a name, type, rank, dims or rows of an input, or an option; or it could not be read (`cause`).
   *
   * Correct the argument that the message names.
   */
  ERR_INVALID_ARG: 'request'
  /**
   * A configuration contradicts itself or the model.
   *
   * Correct the option that the message names.
   */
  ERR_MODEL_CONFIG: 'load'
  /**
   * There is no such model file, no model of that name, or no such version.
   *
   * Check the path or the name, or load the model first.
   */
  ERR_MODEL_NOT_FOUND: 'load'
  /**
   * The model cannot be served; [the causes](#causes-of-err_model_load) are listed below.
   *
   * Read the message and `cause`. `npx zerohop inspect FILE` opens the file without an engine.
   */
  ERR_MODEL_LOAD: 'load'
  /**
   * The model cannot be unloaded, because it is a step of a pipeline.
   *
   * Unload the pipeline first.
   */
  ERR_MODEL_IN_USE: 'lifecycle'
  /**
   * The model is still loading, or has failed.
   *
   * Await `load()`. If it failed, its rejection and the `model` event of type `failed` have the reason.
   */
  ERR_MODEL_NOT_READY: 'lifecycle'
  /**
   * The queue is at `maxQueueSize`.
   *
   * Answer [503](#http-status), and try again after `retryAfterMs`.
   */
  ERR_QUEUE_FULL: 'overload'
  /**
   * `timeoutMs` ran out before the run began, or `maxRunMs` during the run. The stack shows the async functions that
   * await the call.
   *
   * Shed load or add instances; for `maxRunMs`, look at the request.
   */
  ERR_TIMEOUT: 'overload'
  /**
   * The answer cannot come within `deadlineMs`. `estimatedMs` is the estimated time it would take.
   *
   * Answer [504](#http-status), or allow more time.
   */
  ERR_DEADLINE: 'overload'
  /**
   * The engine or the model is closing or closed.
   *
   * Send the request elsewhere: this process is shutting down, or the model was unloaded.
   */
  ERR_CLOSED: 'lifecycle'
  /**
   * The worker died during the request's run. The engine replaces the worker.
   *
   * Try again if the model has no side effects, or load it with `rerunAfterCrash`.
   */
  ERR_INSTANCE_CRASHED: 'run'
  /**
   * The request's sequence has not begun, or has ended: by its last request, because it was idle for too long, or with
   * its model or a worker.
   *
   * Begin a new sequence.
   */
  ERR_SEQUENCE_ENDED: 'lifecycle'
  /**
   * ONNX Runtime or a function failed the run (its message is in `cause`), or an output of the run is not as declared.
   *
   * Look at the request's data and at the model: other requests of the batch are not affected.
   */
  ERR_EXECUTION: 'run'
  /**
   * onnxruntime-node, sharp (needed by an image) or the addon (requested by name) cannot be loaded, or the requested
   * `staging.kind` is not available.
   *
   * Do what the message says: install or rebuild the part that is missing.
   */
  ERR_NATIVE_LOAD: 'load'
  /**
   * This process cannot have an engine: Bun, Deno, Electron, Node.js before 20.19, or musl. `new InferenceEngine()`
   * throws it; every import works.
   *
   * Do what the message says.
   */
  ERR_PLATFORM: 'load'
  /**
   * The serving process cannot be reached or started, or it ended while the request was in flight.
   *
   * Try again: the next call connects anew. Whether a request in flight ran is not known.
   */
  ERR_DISCONNECTED: 'lifecycle'
  /**
   * An image file is missing or cannot be read, the image cannot be decoded, or it exceeds a limit, which `argument`
   * names.
   *
   * Refuse the image, or raise the limit.
   */
  ERR_IMAGE_DECODE: 'request'
  /**
   * Leased rows were used after they were run or released, were held for too long, or their model was closed.
   *
   * Take a new lease.
   */
  ERR_LEASE_ENDED: 'lifecycle'
}

/** The code of an {@link InferenceError}. Branch on these, never on messages. */
export type InferenceErrorCode = keyof ErrorCodes

/** Fields of an {@link InferenceError} besides its code and message. All are optional; `undefined` is no value. */
export interface InferenceErrorDetails {
  /** Name of the model. */
  model?: string
  /** The argument, option, input or output that is wrong. */
  name?: string
  /** The valid input, in words or as a value. */
  expected?: unknown
  /**
   * The value received. A short primitive, or a short array of those, is kept as it is; anything else is replaced by
   * its description, so that the error holds no caller data and can be serialised.
   */
  received?: unknown
  /** Milliseconds until what waits is answered, by the throughput so far (`ERR_QUEUE_FULL`). */
  retryAfterMs?: number
  /**
   * Estimated latency of the request, in milliseconds from its call (`ERR_DEADLINE`). The estimate comes from the times
   * of earlier runs.
   */
  estimatedMs?: number
  /** The caller's `requestId`, if any. */
  requestId?: string
  /**
   * Name of the pipeline step that failed, for a {@link model} that is a pipeline. The `cause` is the error of the
   * step's own model.
   */
  step?: string
  /** The underlying error. */
  cause?: unknown
}

/** In characters. A longer message is cut and ends with its length; `cause` keeps the full text of ONNX Runtime. */
const longestMessage = 4000
const longestName = 200
const longestExpected = 1000

/** The only error class of the library. Tell failures apart by {@link InferenceError.code}. */
export class InferenceError extends Error {
  override readonly name = 'InferenceError'
  /** The kind of failure. */
  readonly code: InferenceErrorCode
  /** The model of the request, if any. */
  declare readonly model?: string
  /** The argument, option or setting that is wrong. */
  declare readonly argument?: string
  /** The valid value. */
  declare readonly expected?: unknown
  /** The value received. */
  declare readonly received?: unknown
  /** For `ERR_QUEUE_FULL`: milliseconds until what waits is answered, by the throughput so far; 1 before the first answers. */
  declare readonly retryAfterMs?: number
  /** For `ERR_DEADLINE`: estimated latency of the request, in milliseconds. */
  declare readonly estimatedMs?: number
  /** The caller's `requestId`. */
  declare readonly requestId?: string
  /** For a pipeline: the step that failed. */
  declare readonly step?: string

  constructor(code: InferenceErrorCode, message: string, details: InferenceErrorDetails = {}) {
    super(
      cut(message, longestMessage),
      Object.hasOwn(details, 'cause') && details.cause !== undefined ? { cause: details.cause } : undefined,
    )
    this.code = code
    // A plain loop: an overloaded model creates one of these errors for every request it refuses.
    const fields: Record<string, unknown> = this as never
    for (const field of Object.keys(details) as (keyof InferenceErrorDetails)[]) {
      const value = details[field]
      if (field === 'received') fields['received'] = receivedOf(value)
      else if (value === undefined || field === 'cause') continue
      else if (field === 'name')
        fields['argument'] = typeof value === 'string' ? cut(value, longestName) : undefined
      else if (field === 'expected')
        fields['expected'] = typeof value === 'string' ? cut(value, longestExpected) : value
      else fields[field] = value
    }
  }

  /** For `JSON.stringify`: all fields except `cause` and `stack`. */
  toJSON(): object {
    return { ...this, message: this.message }
  }
}

/**
 * Formats every error for a wrong argument: its name, what was expected, what was received.
 *
 * @param details `meant`: the name that an unknown one was probably meant to be; `hint`: what to do.
 */
export function invalidArgument(
  name: string,
  expected: string,
  received: unknown,
  details: Omit<InferenceErrorDetails, 'name' | 'expected' | 'received'> & {
    hint?: string
    meant?: string | null
    code?: InferenceErrorCode
  } = {},
): InferenceError {
  const { hint, meant = null, code = 'ERR_INVALID_ARG', model, ...rest } = own(details)
  const where = model === undefined ? '' : ` of model '${cut(model, longestName)}'`
  const after = hint === undefined ? '' : `. ${hint}`
  const first = meant === null ? 'expected' : `did you mean ${meant}? Expected`
  const message = `${cut(name, longestName)}${where}: ${first} ${expected}, received ${describe(received)}${after}`
  return new InferenceError(code, message, { ...rest, model, name, expected, received })
}

/** The error for a wrong option of a model's configuration. */
export function invalidConfig(
  model: string,
  name: string,
  expected: string,
  received: unknown,
  hint?: string,
): InferenceError {
  return invalidArgument(name, expected, received, { code: 'ERR_MODEL_CONFIG', model, hint })
}

/** The error for an exception from the caller's own code (a getter, a proxy) while an argument was read. */
export function unreadable(
  name: string,
  cause: unknown,
  details: { model?: string; code?: InferenceErrorCode } = {},
): InferenceError {
  return invalidArgument(name, 'a value that can be read', cause, {
    ...details,
    hint: 'Reading it threw an error; see cause',
    cause,
  })
}

/** A copy that ignores properties added to `Object.prototype`. */
function own<T extends object>(object: T): T {
  return { __proto__: null, ...object } as T
}

/** Longest description, name and piece of text in a message, in characters. */
const longest = 200
/** Longest string shown, and longest string within an array, in characters. */
const longestText = 80
const longestItem = 40
const itemsShown = 8
/** Depth of nested arrays shown; deeper ones appear as dots. */
const deepest = 2
/** Longest array that `error.received` keeps as it is. */
const itemsKept = 16
/** Number of names listed in a message. */
const namesListed = 10
const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }
const hugeInteger = 10n ** 40n

const typedArrayPrototype = Object.getPrototypeOf(Uint8Array.prototype) as object
const lengthOf = Object.getOwnPropertyDescriptor(typedArrayPrototype, 'length')!.get!
const kindOf = Object.getOwnPropertyDescriptor(typedArrayPrototype, Symbol.toStringTag)!.get!

/**
 * Describes a received value for an error message, with its type, in at most 200 characters. The cost is small however
 * large, deep or cyclic the value is. It runs none of the value's own code (getters, proxies, `toString`) and never
 * throws.
 */
export function describe(value: unknown): string {
  if (typeof value === 'string') return cut(quoted(value, longestText), longest)
  if (typeof value === 'object' || typeof value === 'function') return cut(describeObject(value, 0), longest)
  return value === undefined
    ? 'undefined'
    : cut(`${primitive(value, longestText)} (${typeof value})`, longest)
}

/**
 * What an error keeps of a wrong value: a short primitive as it is, a copy of a short array of those, else a
 * description. So an error holds no caller memory and can be serialised.
 */
function receivedOf(value: unknown): unknown {
  if (isShort(value)) return value
  if (isProxy(value) || !Array.isArray(value) || value.length > itemsKept) return describe(value)
  const items = Array.from({ length: value.length }, (_, index) => ownData(value, index))
  return items.every(isShort) ? items : describe(value)
}

/** The first ten names in quotes, and the number of the others; `'none'` for an empty list. */
export function listNames(names: readonly string[], none = 'none'): string {
  if (names.length === 0) return none
  const shown = names
    .slice(0, namesListed)
    .map((name) => quoted(name, longestText))
    .join(', ')
  return names.length > namesListed ? `${shown} and ${names.length - namesListed} more` : shown
}

/** The text if it is short, else its beginning and its length. */
export function cut(text: string, most: number): string {
  return text.length <= most ? text : `${flat(text, most - 30)}... (${text.length} characters)`
}

function describeObject(value: object | null, depth: number): string {
  if (value === null) return 'null'
  if (isProxy(value)) return 'a Proxy'
  if (typeof value === 'function') {
    const name = ownData(value, 'name')
    return `function ${typeof name === 'string' && name !== '' ? printable(cut(name, longestText)) : '(anonymous)'}`
  }
  if (Array.isArray(value)) return describeArray(value, depth)
  if (!isTypedArray(value)) return `an instance of ${className(value) ?? 'Object'}`
  return `${className(value) ?? (kindOf.call(value) as string)}(${lengthOf.call(value) as number})`
}

function describeArray(array: readonly unknown[], depth: number): string {
  if (depth > deepest) return '[...]'
  const shown: string[] = []
  let room = longest
  for (let index = 0; index < array.length && index < itemsShown && room > 0; index++) {
    const item = ownData(array, index)
    const text =
      typeof item === 'object' || typeof item === 'function'
        ? describeObject(item, depth + 1)
        : primitive(item, longestItem)
    room -= text.length
    shown.push(text)
  }
  return `[${shown.join(', ')}${array.length > shown.length ? `, ... ${array.length} items` : ''}]`
}

function primitive(value: unknown, most: number): string {
  if (typeof value === 'string') return printable(value.length > most ? `${flat(value, most - 3)}...` : value)
  if (typeof value === 'symbol') return `Symbol(${printable(cut(value.description ?? '', most))})`
  if (typeof value !== 'bigint') return String(value)
  // Formatting a number of a million digits takes seconds; comparing it is free.
  return value < hugeInteger && value > -hugeInteger ? String(value) : 'more than 40 digits'
}

function quoted(text: string, most: number): string {
  return `'${primitive(text, most)}'`
}

/** Escapes line breaks and other control characters, which could forge log lines. */
function printable(text: string): string {
  return text.replace(
    /[\p{Cc}\u2028\u2029]/gu,
    (control) => escapes[control] ?? `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** A copy of the beginning: the result of `slice` would keep the whole text in memory. */
function flat(text: string, length: number): string {
  return Buffer.from(text.slice(0, length).toWellFormed()).toString()
}

/** The name of the nearest constructor, if it has an ordinary one. */
function className(value: object): string | undefined {
  let holder: object | null = Object.getPrototypeOf(value) as object | null
  for (let up = 0; up < 8 && holder !== null && !isProxy(holder); up++) {
    const maker = ownData(holder, 'constructor')
    if (typeof maker === 'function' && !isProxy(maker)) {
      const name = ownData(maker, 'name')
      return typeof name === 'string' && name !== '' ? printable(cut(name, longestText)) : undefined
    }
    holder = Object.getPrototypeOf(holder) as object | null
  }
  return undefined
}

/** A property as it is stored. Getters are not called. */
function ownData(holder: object, key: string | number): unknown {
  const property = Object.getOwnPropertyDescriptor(holder, key)
  return property !== undefined && Object.hasOwn(property, 'value') ? property.value : undefined
}

function isShort(value: unknown): boolean {
  if (typeof value === 'string') return value.length <= longest
  return value === null || value === undefined || typeof value === 'number' || typeof value === 'boolean'
}
