import { connect, Socket } from 'node:net'
import { libraryVersion } from '../../base/own-package.ts'
import { InferenceError, invalidArgument, unreadable } from '../../errors.ts'
import type { NativeProcesses } from '../../native/native-binding.ts'
import { isAbortSignal, isPlainObject } from '../../options/plain-options.ts'
import { unwatch, watch } from '../../base/abort-watch.ts'
import { rejectCaller } from '../../request/participants.ts'
import { Connection, frameHeadBytes, nextTurn, type ConnectionOwner } from './connection.ts'
import { answeredNumber, mostRequestNumber, readAnswer, writeRequest } from './inference-records.ts'
import {
  aliveCall,
  callFrameOf,
  frameKinds,
  frameOf,
  messageText,
  mostCalls,
  protocolVersion,
  readMessage,
  type Call,
  type CallResult,
  type Hello,
  type Welcome,
  FrameReader,
  greetingBytes,
  textFrame,
} from './messages.ts'
import { BadRecord, RecordWriter, type RecordReader } from './records.ts'
import { SharedRings, type Descriptors } from './shared-rings.ts'
import { checkServer } from './serving-place.ts'
import { errorFrom, readText } from './tagged-json.ts'

interface Pending {
  readonly resolve: (answer: never) => void
  readonly reject: (reason: unknown) => void
  /** Whether it went through the rings. */
  isDirect: boolean
  isSettled: boolean
  signal: AbortSignal | null
  onAbort: (() => void) | null
  endWatch: (() => void) | null
}

function pendingOf(resolve: (answer: never) => void, reject: (reason: unknown) => void): Pending {
  return { resolve, reject, isDirect: true, isSettled: false, signal: null, onAbort: null, endWatch: null }
}

/**
 * The client's end of a connection to a serving process. Each request settles exactly once, at the latest
 * when the connection ends.
 */
export class ClientConnection implements ConnectionOwner {
  readonly #path: string
  readonly #connection: Connection
  /** `null` while a request is being written. */
  #record: RecordWriter | null = new RecordWriter()
  readonly #requests = new Map<number, Pending>()
  readonly #calls = new Map<number, Pending>()
  /**
   * Numbers in use, of requests and calls. A number stays in use until the serving process has released the
   * request, too.
   */
  #unsettled = 0
  readonly #silence = new SilenceWatch(() => this.#connection.sendText(frameKinds.call, aliveCall))
  #welcome: Welcome | null = null
  #greeting: { resolve(welcome: Welcome): void; reject(error: Error): void } | null = null
  #end: Error | null = null
  #lastNumber = 0
  #lastCall = 0
  /**
   * Requests in flight that went through the socket. While there are any, all requests go there, so that none
   * overtakes another.
   */
  #detours = 0
  #drained: Promise<void> | null = null
  #onDrained: (() => void) | null = null

  private constructor(path: string, socket: Socket) {
    this.#path = path
    this.#connection = new Connection(socket, this)
  }

  /**
   * Throws the system's error if no process serves, and the reason if the serving process refuses.
   *
   * @param processes with which memory is shared; `null` to share none.
   */
  static async open(
    path: string,
    address: string,
    processes: NativeProcesses | null,
    timeoutMs: number,
  ): Promise<ClientConnection> {
    const sharesMemory = processes !== null
    const hello: Hello = { protocol: protocolVersion, version: libraryVersion, sharesMemory }
    if (!sharesMemory) return ClientConnection.#overSocket(path, address, hello, timeoutMs)
    const { descriptor, welcome, handedOver } = await greetNatively(processes, address, hello, timeoutMs)
    processes.handOver(descriptor)
    const client = new ClientConnection(path, new Socket({ fd: descriptor, readable: true, writable: true }))
    try {
      client.#opened(
        welcome,
        handedOver && SharedRings.take(processes, handedOver, welcome.ringBytes, client.#connection.read),
      )
    } catch (error) {
      client.close((error as Error).message)
      throw error
    }
    return client
  }

  static async #overSocket(
    path: string,
    address: string,
    hello: Hello,
    timeoutMs: number,
  ): Promise<ClientConnection> {
    const socket = connect(address)
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
    try {
      checkServer(path, socket)
    } catch (error) {
      socket.destroy()
      throw error
    }
    const client = new ClientConnection(path, socket)
    const timer = setTimeout(() => {
      client.#greeting!.reject(notAnswering(timeoutMs))
      client.close('it does not answer')
    }, timeoutMs)
    const welcome = await new Promise<Welcome>((resolve, reject) => {
      client.#greeting = { resolve, reject }
      client.#connection.sendText(frameKinds.hello, messageText(hello))
    }).finally(() => clearTimeout(timer))
    client.#opened(welcome, null)
    return client
  }

  get closed(): boolean {
    return this.#connection.closed
  }

  get server(): Welcome {
    return this.#welcome!
  }

  get sharesMemory(): boolean {
    return this.#connection.sharesMemory
  }

  /** How many more requests would be accepted now. */
  get room(): number {
    return this.server.maxRequests - this.#requests.size
  }

  /** Sends a request. Throws if the client can see that it is invalid. */
  infer(model: string, feeds: unknown, given: unknown): Promise<never> {
    if (this.closed) throw disconnected(this.#path, 'it is closed')
    const { maxRequests, maxBytes } = this.#welcome!
    if (this.#requests.size >= maxRequests) throw tooMany(model, maxRequests, this.#path)
    const { signal, options, limit } = given === undefined ? noOptions : readCallOptions(given, model)
    if (signal?.aborted) return Promise.reject(signal.reason)
    const number = this.#nextNumber()
    const record = this.#record ?? new RecordWriter() // a getter of the feeds may itself send a request
    this.#record = null
    try {
      writeRequest(record, number, model, feeds, options, signal !== undefined)
      const { byteLength } = record
      if (byteLength > maxBytes)
        throw invalidArgument('feeds', `at most ${maxBytes} bytes (maxBytes of serve)`, byteLength, { model })
      if (this.closed) throw this.#end ?? disconnected(this.#path, 'it was closed meanwhile')
      return new Promise((resolve, reject) => {
        const pending = pendingOf(resolve, reject)
        this.#requests.set(number, pending)
        this.#hold()
        if (signal !== undefined)
          this.#watch(pending, signal, (reason) => this.#withdraw(number, pending, reason))
        if (limit !== null)
          pending.endWatch = this.#silence.watch(limit.ms, () =>
            this.#withdraw(number, pending, tooSilent(model, limit, this.#path)),
          )
        this.#send(record, number, pending)
      })
    } finally {
      this.#record = record
    }
  }

  /**
   * Calls any other method of the engine. It rejects when the serving process has sent nothing for `silenceMs`, and with
   * the signal's reason. The serving process is then notified that no caller waits any more.
   */
  call(method: string, args: readonly unknown[], silenceMs: number, signal?: AbortSignal): Promise<unknown> {
    if (signal?.aborted) return Promise.reject(signal.reason)
    if (this.closed) return Promise.reject(disconnected(this.#path, 'it is closed'))
    if (this.#calls.size >= mostCalls) return Promise.reject(tooMany(null, mostCalls, this.#path))
    const id = ++this.#lastCall
    const frame = callFrame({ id, method, args }, this.#welcome!.maxBytes)
    return new Promise((resolve, reject) => {
      const pending = pendingOf(resolve, reject)
      this.#calls.set(id, pending)
      this.#hold()
      const withdraw = (reason: unknown) => this.#withdrawCall(id, pending, reason)
      if (signal !== undefined) this.#watch(pending, signal, withdraw)
      pending.endWatch = this.#silence.watchOn(silenceMs, () =>
        withdraw(tooSilentFor(method, silenceMs, this.#path)),
      )
      this.#connection.sendFrame(frame)
    })
  }

  /** Resolves when nothing is in flight. */
  drained(): Promise<void> {
    if (this.#unsettled === 0) return Promise.resolve()
    return (this.#drained ??= new Promise((resolve) => (this.#onDrained = resolve)))
  }

  close(reason: string): void {
    this.#connection.close(reason)
  }

  /** Closes the connection. What is in flight rejects with `error`. */
  end(error: Error): void {
    this.#end = error
    this.close(error.message)
  }

  takesFrames(): boolean {
    return true
  }

  accepts(): boolean {
    return true
  }

  onFrame(kind: number, body: Buffer): void {
    this.#silence.heard()
    if (this.#welcome === null) {
      try {
        this.#greeting!.resolve(readWelcome(kind, body))
      } catch (error) {
        this.#greeting!.reject(error as Error)
      }
      return
    }
    if (kind !== frameKinds.result) throw new BadRecord('a frame of unknown kind')
    const { id, value, error } = readMessage<CallResult>(body, { id: 'number' })
    const call = this.#calls.get(id)
    this.#calls.delete(id)
    if (call === undefined || call.isSettled) return // the call only checked that the server responds, or has been given up
    this.#settle(call)
    if (error === undefined) call.resolve(value as never)
    else call.reject(errorFrom(error))
  }

  onRecord(record: RecordReader): undefined {
    this.#silence.heard()
    const number = answeredNumber(record)
    const pending = this.#requests.get(number)
    if (pending === undefined) throw new BadRecord('an answer without a request')
    const answer = readAnswer(record)
    this.#requests.delete(number)
    if (!pending.isDirect) this.#detours--
    if (pending.isSettled) return undefined
    this.#settle(pending)
    if (answer instanceof Error) rejectCaller(answer, pending.resolve, pending.reject)
    else pending.resolve(answer as never)
    return undefined
  }

  onClose(reason: string): void {
    this.#greeting?.reject(Object.assign(new Error(reason), { code: 'ECONNREFUSED' })) // it may be closing
    const left = [...this.#requests.values(), ...this.#calls.values()]
    this.#requests.clear()
    this.#calls.clear()
    for (const pending of left) {
      if (pending.isSettled) continue
      this.#settle(pending)
      pending.reject(this.#end ?? disconnected(this.#path, reason))
    }
  }

  #send(record: RecordWriter, number: number, pending: Pending): void {
    try {
      pending.isDirect = this.#connection.send(record, this.#detours > 0)
    } catch (error) {
      this.#requests.delete(number)
      this.#settle(pending)
      throw unreadable('feeds', error)
    }
    if (!pending.isDirect) this.#detours++
  }

  #opened(welcome: Welcome, rings: SharedRings | null): void {
    this.#welcome = welcome
    this.#connection.open(welcome.maxBytes + frameHeadBytes, rings)
    this.#connection.hold(false)
  }

  #watch(pending: Pending, signal: AbortSignal, withdraw: (reason: unknown) => void): void {
    pending.signal = signal
    pending.onAbort = () => withdraw(signal.reason)
    watch(signal, pending.onAbort)
  }

  /**
   * Rejects the caller at once. The number stays in use until the serving process has released the request.
   */
  #withdraw(number: number, pending: Pending, reason: unknown): void {
    this.#settle(pending)
    rejectCaller(reason, pending.resolve, pending.reject)
    const frame = frameOf(frameKinds.withdrawal, 4)
    frame.writeUInt32LE(number, 8)
    this.#connection.sendFrame(frame)
  }

  /** Rejects the caller at once. The call counts until its result arrives. */
  #withdrawCall(id: number, pending: Pending, reason: unknown): void {
    this.#settle(pending)
    pending.reject(reason)
    const frame = frameOf(frameKinds.callWithdrawal, 8)
    frame.writeDoubleLE(id, 8)
    this.#connection.sendFrame(frame)
  }

  #nextNumber(): number {
    do this.#lastNumber = this.#lastNumber === mostRequestNumber ? 1 : this.#lastNumber + 1
    while (this.#requests.has(this.#lastNumber))
    return this.#lastNumber
  }

  #hold(): void {
    if (++this.#unsettled === 1) this.#connection.hold(true)
  }

  /** Removes the request from the ones in flight; the calling method settles its promise. */
  #settle(pending: Pending): void {
    pending.isSettled = true
    pending.endWatch?.()
    if (pending.signal !== null) unwatch(pending.signal, pending.onAbort!)
    if (--this.#unsettled > 0) return
    this.#connection.hold(false)
    this.#onDrained?.()
    this.#onDrained = this.#drained = null
  }
}

/** A serving process that has replied. */
interface Greeted {
  /** Descriptor of the socket. */
  readonly descriptor: number
  readonly welcome: Welcome
  /** Descriptors that the serving process passed, if any. */
  readonly handedOver: Descriptors | null
}

const welcomeFields = {
  protocol: 'number',
  version: 'string',
  process: 'number',
  ringBytes: 'number',
  maxRequests: 'number',
  maxBytes: 'number',
} as const

/** Reads the first message of a serving process. Throws its reason if it refuses. */
function readWelcome(kind: number, body: Buffer): Welcome {
  if (kind === frameKinds.welcome) return readMessage<Welcome>(body, welcomeFields)
  if (kind !== frameKinds.refusal) throw new BadRecord('data other than its greeting')
  throw errorFrom(readText(body.toString()))
}

/**
 * Connects with the addon's own socket, because Node's would drop passed descriptors. Throws the system's
 * error, or the reason of a refusal.
 */
export async function greetNatively(
  processes: NativeProcesses,
  address: string,
  hello: Hello,
  timeoutMs: number,
): Promise<Greeted> {
  const descriptor = processes.connect(address)
  const descriptors: number[] = []
  try {
    if (processes.peer(descriptor).user !== process.getuid!())
      throw new Error('a process of another user serves there')
    processes.send(descriptor, textFrame(frameKinds.hello, messageText(hello)))
    const welcome = await receiveWelcome(processes, descriptor, descriptors, timeoutMs)
    const [area, bell] = descriptors
    const expected = welcome.ringBytes > 0 ? 2 : 0
    // The server already uses the rings, and would answer into rings that this side does not have.
    if (descriptors.length !== expected)
      throw Object.assign(
        new Error(
          `${descriptors.length} of ${expected} descriptors came; this process has too many open files`,
        ),
        { code: 'EMFILE' },
      )
    return { descriptor, welcome, handedOver: expected === 0 ? null : { area: area!, bell: bell! } }
  } catch (error) {
    for (const each of [descriptor, ...descriptors]) processes.close(each)
    throw error
  }
}

async function receiveWelcome(
  processes: NativeProcesses,
  descriptor: number,
  descriptors: number[],
  timeoutMs: number,
): Promise<Welcome> {
  const room = Buffer.alloc(greetingBytes)
  let welcome: Welcome | undefined
  const frames = new FrameReader(greetingBytes, (kind, body) => {
    if (welcome !== undefined) throw new BadRecord('data before it was asked')
    welcome = readWelcome(kind, body)
  })
  const endMs = performance.now() + timeoutMs
  while (welcome === undefined) {
    const received = processes.receive(descriptor, room)
    descriptors.push(...received.descriptors)
    if (received.length === 0)
      throw Object.assign(new Error('the connection was closed'), { code: 'ECONNREFUSED' })
    if (received.length > 0) frames.push(room.subarray(0, received.length))
    else await readable(processes, descriptor, endMs - performance.now(), notAnswering(timeoutMs))
  }
  return welcome
}

function readable(
  processes: NativeProcesses,
  descriptor: number,
  timeoutMs: number,
  late: Error,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => {
      clearTimeout(timer)
      bell.close()
      settle()
    }
    const bell = new processes.Bell(descriptor, () => end(resolve), true)
    bell.ref()
    const timer = setTimeout(() => end(() => reject(late)), Math.max(0, timeoutMs))
  })
}

/** The error for a serving process that takes too long to reply. */
function notAnswering(timeoutMs: number): Error {
  return new Error(
    `it did not answer within ${Math.round(timeoutMs)} ms; it may be suspended or busy: raise timeoutMs to wait longer`,
  )
}

/** Options of a call: those that stay with the client, and those that are sent. */
interface CallOptions {
  readonly signal: AbortSignal | undefined
  readonly options: object | undefined
  /** The limit that the client also enforces while the serving process is silent; `null` for none. */
  readonly limit: CallLimit | null
}

/** The limit of a call that passes first. */
interface CallLimit {
  readonly name: 'timeoutMs' | 'deadlineMs'
  readonly ms: number
}

export const noOptions: CallOptions = { signal: undefined, options: undefined, limit: null }
const longestTimerMs = 2 ** 31 - 1

/** Reads each option once. @throws InferenceError `ERR_INVALID_ARG` */
export function readCallOptions(given: unknown, model: string): CallOptions {
  if (!isPlainObject(given)) throw invalidArgument('options', 'a plain object', given, { model })
  const { signal, ...options } = given
  if (signal !== undefined && !isAbortSignal(signal))
    throw invalidArgument('options.signal', 'an AbortSignal', signal, { model })
  return { signal, options, limit: limitOf(options) }
}

/** The limits of a call. */
interface CallLimits {
  readonly timeoutMs?: unknown
  readonly deadlineMs?: unknown
}

/** Invalid values are left for the serving process to refuse. */
const isLimit = (ms: unknown): ms is number => typeof ms === 'number' && ms > 0 && ms <= longestTimerMs

/** The options of a call that waited so long before it was sent: both its limits include that. */
export function optionsLeft(options: CallLimits, waitedMs: number): object {
  const left = (ms: unknown) => (isLimit(ms) ? Math.max(1, Math.ceil(ms - waitedMs)) : ms)
  const { timeoutMs, deadlineMs } = options
  return { ...options, timeoutMs: left(timeoutMs), deadlineMs: left(deadlineMs) }
}

function limitOf({ timeoutMs, deadlineMs }: CallLimits): CallLimit | null {
  const timeout = isLimit(timeoutMs) ? timeoutMs : Infinity
  const deadline = isLimit(deadlineMs) ? deadlineMs : Infinity
  if (timeout === Infinity && deadline === Infinity) return null
  return timeout <= deadline ? { name: 'timeoutMs', ms: timeout } : { name: 'deadlineMs', ms: deadline }
}

/**
 * @throws InferenceError `ERR_INVALID_ARG` for arguments that cannot be read, or that exceed the byte limit
 * of the serving process.
 */
function callFrame(call: Call, maxBytes: number): Buffer {
  let frame: Buffer
  try {
    frame = callFrameOf(call)
  } catch (error) {
    if (error instanceof InferenceError) throw error
    throw unreadable(`arguments of ${call.method}()`, error)
  }
  if (frame.length <= maxBytes) return frame
  throw invalidArgument(
    `arguments of ${call.method}()`,
    `at most ${maxBytes} bytes (maxBytes of serve)`,
    frame.length,
    { hint: 'Give the path of a model, and not its bytes' },
  )
}

/** The error of requests in flight when the serving process went, and of later ones. */
function disconnected(path: string, reason: string): InferenceError {
  const message = `The process that serves at ${path} is gone: ${reason}. It may or may not have run the request; the next call connects again.`
  return new InferenceError('ERR_DISCONNECTED', message, { name: 'path', received: path })
}

/** The error for exceeding the limit of requests or, without a model, of other calls. */
function tooMany(model: string | null, most: number, path: string): InferenceError {
  const [what, limit] =
    model === null ? [`${most} calls`, ''] : [`Model '${model}': ${most} requests`, ' (maxRequests of serve)']
  const message = `${what} of this process are in flight at ${path}, the most allowed${limit}. Wait for an answer first.`
  return new InferenceError('ERR_QUEUE_FULL', message, {
    ...(model !== null && { model }),
    expected: `fewer than ${most} in flight`,
    received: most,
  })
}

/** The error of a request whose limit has passed while the serving process is silent. */
export function tooSilent(model: string, { name, ms }: CallLimit, path: string): InferenceError {
  const message = `Model '${model}': the process that serves at ${path} sent nothing for ${ms} ms (${name}). It may be stopped or blocked; the request is withdrawn.`
  return new InferenceError(name === 'timeoutMs' ? 'ERR_TIMEOUT' : 'ERR_DEADLINE', message, {
    model,
    expected: `an answer within ${ms} ms`,
  })
}

/** The error of any other call while the serving process is silent. */
function tooSilentFor(method: string, ms: number, path: string): InferenceError {
  const message = `${method}(): the process that serves at ${path} sent nothing for ${ms} ms. It may be stopped or blocked, and may still do it.`
  return new InferenceError('ERR_TIMEOUT', message, { expected: `an answer within ${ms} ms` })
}

/** The server is asked for a sign of life at most this long before a limit passes. */
const askedBeforeMs = 250
/** How long a busy server may take to give a sign of life. */
const patienceMs = 50
/** How long it may take once it has been asked several times: each time twice as long as before, up to this. */
const longestPatienceMs = 500

/**
 * Watches whether a serving process responds while requests with limits wait for it. If it is stopped or
 * blocked, requests past their limit are rejected here. While it responds, it enforces the limits itself.
 */
export class SilenceWatch {
  readonly #ask: () => void
  /** How many messages have arrived. */
  #heard = 0
  #heardWhenAsked = -1

  /** @param ask makes the server send something. */
  constructor(ask: () => void) {
    this.#ask = ask
  }

  /** Call this for each message of the server. */
  heard(): void {
    this.#heard++
  }

  /**
   * Calls `onSilence` when the limit has passed and the server is silent. A server that is late but responds gets further
   * questions.
   *
   * @returns a function that stops watching.
   */
  watch(limitMs: number, onSilence: () => void): () => void {
    const endMs = performance.now() + limitMs
    let heard = -1
    let waitMs = patienceMs
    return this.#lookAfter(Math.max(limitMs / 2, limitMs - askedBeforeMs), () => {
      if (this.#heard === heard) return onSilence()
      heard = this.#askOnce()
      const nextMs = Math.max(waitMs, endMs - performance.now())
      waitMs = Math.min(2 * waitMs, longestPatienceMs)
      return nextMs
    })
  }

  /**
   * Calls `onSilence` when the server has sent nothing for `silenceMs`, and half of that after it was asked to. There is no
   * other limit.
   *
   * @returns a function that stops watching.
   */
  watchOn(silenceMs: number, onSilence: () => void): () => void {
    let heard = this.#heard
    let quietHalves = 0
    return this.#lookAfter(silenceMs / 2, () => {
      if (this.#heard === heard && ++quietHalves === 2) return onSilence()
      if (this.#heard !== heard) quietHalves = 0
      heard = this.#askOnce()
      return silenceMs / 2
    })
  }

  /** Asks, unless nothing has arrived since the last time. Returns how many messages had arrived before. */
  #askOnce(): number {
    const heard = this.#heard
    if (this.#heardWhenAsked !== heard) {
      this.#heardWhenAsked = heard
      this.#ask()
    }
    return heard
  }

  /**
   * Calls `look` after `ms`, and again after the milliseconds that it returns, if any. If this process was blocked, what
   * the server has sent is read first.
   *
   * @returns a function that ends this.
   */
  #lookAfter(ms: number, look: () => number | void): () => void {
    let isOver = false
    const lookNow = () => {
      const nextMs = isOver ? undefined : look()
      if (nextMs !== undefined && !isOver) timer = setTimeout(lookLater, nextMs)
    }
    const lookLater = () => nextTurn(lookNow)
    let timer = setTimeout(lookLater, ms)
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }
}
