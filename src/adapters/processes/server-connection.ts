import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { libraryVersion } from '../../base/own-package.ts'
import { type Pieces, slices } from '../../base/slices.ts'
import type { InferenceEngine } from '../../engine.ts'
import { InferenceError } from '../../errors.ts'
import type { NativeProcesses } from '../../native/native-binding.ts'
import { Connection, frameHeadBytes, type ConnectionOwner } from './connection.ts'
import type { ServedMethods } from './engine-server.ts'
import { requestPieces, type TravellingRequest, writeAnswer, writeRejection } from './inference-records.ts'
import {
  aliveCall,
  aliveResult,
  callPieces,
  frameKinds,
  type Hello,
  messageText,
  mostCalls,
  protocolVersion,
  readMessage,
  resultPieces,
  textFrame,
  type Welcome,
} from './messages.ts'
import { BadRecord, type RecordReader, RecordWriter } from './records.ts'
import { descriptorOf } from './serving-place.ts'
import { SharedRings } from './shared-rings.ts'
import { errorText, fromText } from './tagged-json.ts'

/** What all clients share. */
export interface Serving {
  readonly engine: InferenceEngine
  readonly methods: ServedMethods
  /** `null` if memory cannot be shared. */
  readonly processes: NativeProcesses | null
  /** Of one client. */
  readonly limits: { readonly maxRequests: number; readonly maxBytes: number }
  readonly ringPace: RingPace
  /** A client has gone, and its requests are released. */
  gone(client: ServerConnection): void
}

const ringBytes = 2 ** 26
/** How long a client may stay silent after connecting, or stay connected after the last message to it. */
const patienceMs = 10_000
const aliveBody = Buffer.from(aliveCall)

/**
 * The server's end of a connection: one client of a serving process. Everything that it sends is checked; a violation
 * ends its connection, and affects no other client.
 */
export class ServerConnection implements ConnectionOwner {
  readonly #serving: Serving
  readonly #socket: Socket
  readonly #connection: Connection
  readonly #record = new RecordWriter()
  /** Aborts all of its requests and calls. */
  readonly #all = new AbortController()
  readonly #options = { signal: this.#all.signal }
  readonly #signals = new Map<number, AbortController>()
  /** Requests aborted before they were read. */
  readonly #withdrawn = new Set<number>()
  #withdrawals = 0
  #patience: NodeJS.Timeout
  readonly #watch: ClientWatch
  #greeted = false
  #lastNumber = 0
  /** Requests taken and not answered yet. */
  inFlight = 0
  #inFlightBytes = 0
  readonly #calls: ClientCalls
  #blocked = false
  #ending = false
  /** Requests answered. */
  requests = 0

  constructor(socket: Socket, serving: Serving) {
    this.#serving = serving
    this.#socket = socket
    this.#connection = new Connection(socket, this)
    this.#watch = new ClientWatch(
      this.#connection,
      serving.limits.maxBytes,
      () => (this.#blocked || this.#calls.byteLength >= serving.limits.maxBytes) && !this.#ending,
    )
    this.#calls = new ClientCalls(this.#connection, serving.methods, this.#all.signal, () =>
      this.#callEnded(),
    )
    this.#patience = setTimeout(() => this.#connection.close('it sent no greeting'), patienceMs).unref()
  }

  get sharesMemory(): boolean {
    return this.#connection.sharesMemory
  }

  /** Refuses new requests, answers those in flight, and disconnects the client. */
  end(): void {
    this.#ending = true
    this.#connection.read()
    this.#settled()
  }

  accepts(): boolean {
    const { maxRequests, maxBytes } = this.#serving.limits
    this.#blocked =
      !this.#ending &&
      (!this.#greeted || this.inFlight >= maxRequests || this.#inFlightBytes >= maxBytes || this.#isUnread)
    if (this.#blocked) this.#watch.begin()
    return !this.#blocked
  }

  onFrame(kind: number, body: Buffer): void {
    if (kind === frameKinds.hello && !this.#greeted)
      return this.#greet(
        readMessage<Hello>(body, { protocol: 'number', version: 'string', sharesMemory: 'boolean' }),
      )
    if (!this.#greeted) throw new BadRecord('data before its greeting')
    if (kind === frameKinds.call || kind === frameKinds.callWithBytes) this.#takeCall(kind, body)
    else if (kind === frameKinds.withdrawal && body.length === 4) this.#withdraw(body.readUInt32LE(0))
    else if (kind === frameKinds.callWithdrawal && body.length === 8)
      this.#calls.withdraw(body.readDoubleLE(0))
    else if (!this.#ending) throw new BadRecord('a frame of unknown kind')
  }

  #takeCall(kind: number, body: Buffer): void {
    if (this.#calls.areMany || this.#isUnread) throw new BadRecord('more calls than it reads results')
    if (body.equals(aliveBody) && this.#socket.writable && this.#calls.giveSignOfLife()) return
    if (!this.#ending) this.#calls.begin(kind, body)
  }

  #callEnded(): void {
    if (this.#isUnread && !this.#connection.closed) this.#watch.begin()
    this.#connection.read() // frames may have waited for this
    this.#settled()
  }

  /** Whether answers wait that the client does not read. */
  get #isUnread(): boolean {
    return this.#connection.unsentBytes >= this.#serving.limits.maxBytes
  }

  takesFrames(): boolean {
    const takes = this.#ending || this.#calls.byteLength < this.#serving.limits.maxBytes
    if (!takes) this.#watch.begin()
    return takes
  }

  onRecord(record: RecordReader, byteLength: number): Pieces<void> | undefined {
    if (this.#ending) return undefined // the client learns of it at the end; its aborts may still follow
    if (byteLength > this.#serving.limits.maxBytes)
      throw new BadRecord(
        `a request of ${byteLength} bytes, expected at most ${this.#serving.limits.maxBytes}`,
      )
    const pieces = requestPieces(record)
    const { done, value } = pieces.next()
    if (!done) return this.#readRest(pieces, byteLength)
    this.#take(value, byteLength)
    return undefined
  }

  *#readRest(pieces: Pieces<TravellingRequest>, byteLength: number): Pieces<void> {
    this.#take(yield* pieces, byteLength)
  }

  #take(request: TravellingRequest, byteLength: number): void {
    if (this.#ending) return
    this.#lastNumber = request.number
    this.inFlight++
    this.#inFlightBytes += byteLength
    if (this.#withdrawn.delete(request.number))
      return this.#reject(request.number, byteLength, new DOMException('Withdrawn', 'AbortError'))
    const { number, model, options, feeds } = request
    const reported = options?.['report'] === true
    this.#serving.engine.infer(model, feeds as never, this.#optionsOf(request) as never).then(
      (answer) => this.#answer(number, byteLength, answer, reported),
      (error: unknown) => this.#reject(number, byteLength, error),
    )
  }

  onClose(reason: string, isViolation: boolean): void {
    if (isViolation) this.#serving.ringPace.violated()
    clearTimeout(this.#patience)
    this.#watch.end()
    const gone = new InferenceError('ERR_DISCONNECTED', `The client disconnected: ${reason}.`)
    this.#all.abort(gone)
    for (const controller of this.#signals.values()) controller.abort(gone)
    this.#calls.abort(gone)
    if (this.inFlight === 0) this.#serving.gone(this)
  }

  #greet({ protocol, version, sharesMemory }: Hello): void {
    const { processes, limits } = this.#serving
    if (protocol !== protocolVersion) {
      const message = `The serving process has version ${libraryVersion} of zerohop, with protocol ${protocolVersion}; this client has ${version} with ${protocol}. Use the same version in both.`
      this.#connection.sendText(
        frameKinds.refusal,
        errorText(
          new InferenceError('ERR_DISCONNECTED', message, { expected: protocolVersion, received: protocol }),
        ),
      )
      return this.#connection.end()
    }
    this.#greeted = true
    clearTimeout(this.#patience)
    const made = sharesMemory && processes !== null ? this.#makeRings(processes) : null
    const welcome: Welcome = {
      protocol: protocolVersion,
      version: libraryVersion,
      process: process.pid,
      ringBytes: made === null ? 0 : ringBytes,
      ...limits,
    }
    const frame = textFrame(frameKinds.welcome, messageText(welcome))
    this.#connection.open(limits.maxBytes + frameHeadBytes, made?.rings ?? null)
    if (made === null) return void this.#socket.write(frame)
    const { area, bell } = made.others
    try {
      processes!.send(descriptorOf(this.#socket)!, frame, [area, bell])
    } finally {
      processes!.close(area)
      processes!.close(bell)
    }
  }

  /** `null` if the system refuses, or for now the pace: the socket then carries all records. */
  #makeRings(processes: NativeProcesses): ReturnType<typeof SharedRings.make> | null {
    if (descriptorOf(this.#socket) === undefined || !this.#serving.ringPace.take()) return null
    try {
      return SharedRings.make(processes, ringBytes, this.#connection.read)
    } catch {
      return null
    }
  }

  #optionsOf({ number, hasSignal, options }: TravellingRequest): object {
    if (!hasSignal) return options === undefined ? this.#options : { ...options, signal: this.#all.signal }
    const controller = new AbortController()
    this.#signals.set(number, controller)
    return { ...options, signal: controller.signal }
  }

  #answer(number: number, byteLength: number, answer: object, reported: boolean): void {
    this.#done(number, byteLength)
    if (this.#connection.closed) return this.#settled()
    try {
      writeAnswer(this.#record, number, answer as Record<string, unknown>, reported)
      const { maxBytes } = this.#serving.limits
      if (this.#record.byteLength > maxBytes)
        throw new InferenceError(
          'ERR_EXECUTION',
          `The outputs have ${this.#record.byteLength} bytes, expected at most ${maxBytes} (maxBytes of serve).`,
        )
    } catch (error) {
      writeRejection(this.#record, number, error)
    }
    this.#connection.send(this.#record)
    if (this.#isUnread) this.#watch.begin()
    this.#settled()
  }

  #reject(number: number, byteLength: number, error: unknown): void {
    this.#done(number, byteLength)
    if (!this.#connection.closed) {
      writeRejection(this.#record, number, error)
      this.#connection.send(this.#record)
    }
    this.#settled()
  }

  #done(number: number, byteLength: number): void {
    this.requests++
    this.inFlight--
    this.#inFlightBytes -= byteLength
    if (this.#signals.size > 0) this.#signals.delete(number)
  }

  #settled(): void {
    if (this.#connection.closed) {
      if (this.inFlight === 0) this.#serving.gone(this)
    } else if (this.#ending) {
      if (this.inFlight + this.#calls.atWork === 0) this.#leave()
    } else if (this.#blocked) this.#connection.read()
  }

  /** Closes the connection after the last message. */
  #leave(): void {
    this.#connection.end()
    clearTimeout(this.#patience)
    this.#patience = setTimeout(
      () => this.#connection.close('it did not read its answers'),
      patienceMs,
    ).unref()
  }

  /** Each request may be withdrawn once, also one that has not been read yet. */
  #withdraw(number: number): void {
    if (++this.#withdrawals > this.requests + this.inFlight + this.#serving.limits.maxRequests)
      throw new BadRecord('more withdrawals than requests')
    const controller = this.#signals.get(number)
    if (controller !== undefined) controller.abort()
    else if (number > this.#lastNumber && this.#withdrawn.size < this.#serving.limits.maxRequests)
      this.#withdrawn.add(number)
  }
}

/** The calls of one client: of all methods but `infer`. They begin in the order of arrival and may end in any order. */
class ClientCalls {
  /** Calls without a result yet. */
  atWork = 0
  /** Bytes of those calls, as received. */
  byteLength = 0
  readonly #connection: Connection
  readonly #methods: ServedMethods
  /** Fires when the client has gone. */
  readonly #gone: AbortSignal
  readonly #ended: () => void
  readonly #pace = new CallPace()
  /** Calls whose result the client has not received. This side learns of the receipt somewhat later. */
  #unreceived = 0
  #last: Promise<void> = Promise.resolve()
  /** The id of the last call that has been read. */
  #lastId = 0
  /** Loads without a result yet. */
  readonly #loads = new Map<number, AbortController>()
  /** Calls withdrawn before they were read. */
  readonly #withdrawn = new Set<number>()
  /** A sign of life has not been sent yet. */
  #signIsDue = false

  /** @param ended called after each call. */
  constructor(connection: Connection, methods: ServedMethods, gone: AbortSignal, ended: () => void) {
    this.#connection = connection
    this.#methods = methods
    this.#gone = gone
    this.#ended = ended
  }

  /** Whether the client has many more results to receive than it may have calls in flight. */
  get areMany(): boolean {
    return this.#unreceived >= 2 * mostCalls
  }

  /** Stops a load, also one that has not been read yet. Any other call goes on. */
  withdraw(id: number): void {
    const controller = this.#loads.get(id)
    if (controller !== undefined) controller.abort()
    else if (id > this.#lastId && this.#withdrawn.size < this.atWork) this.#withdrawn.add(id)
  }

  /** Stops all loads. */
  abort(reason: InferenceError): void {
    for (const controller of this.#loads.values()) controller.abort(reason)
  }

  /**
   * Waits for no other calls, as those may take long. Until the client has it, another question is a call like any (then
   * this returns false): a client that asks without end gets no more of this thread than by other calls.
   */
  giveSignOfLife(): boolean {
    if (this.#signIsDue) return false
    this.#signIsDue = true
    this.#connection.sendText(frameKinds.result, aliveResult, () => (this.#signIsDue = false))
    return true
  }

  begin(kind: number, body: Buffer): void {
    this.#unreceived++
    this.atWork++
    this.byteLength += body.length
    this.#last = this.#last.then(async () => {
      if (this.#connection.closed) return this.#end(body.length)
      try {
        await this.#pace.turn(this.#gone)
        const { id, result } = await slices.run(this.#call(kind, body), body.length, this.#gone)
        void this.#answer(id, result, body.length)
      } catch (error) {
        this.#end(body.length)
        this.#connection.violated(error)
      }
    })
  }

  *#call(kind: number, body: Buffer): Pieces<{ readonly id: number; readonly result: Promise<unknown> }> {
    const { id, method, args } = yield* callPieces(kind, body)
    const begin = (signal?: AbortSignal) =>
      this.#methods.begin(method, Array.isArray(args) ? args : [], signal)
    this.#lastId = id
    const isWithdrawn = this.#withdrawn.delete(id)
    if (method !== 'load') return { id, ...(yield* this.#pace.counted(begin())) }
    if (this.#loads.has(id)) throw new BadRecord('two loads of one id')
    const controller = new AbortController()
    if (isWithdrawn) controller.abort()
    this.#loads.set(id, controller)
    const { result } = yield* begin(controller.signal)
    return { id, result: result.finally(() => this.#loads.delete(id)) }
  }

  /** The text of a result is made within the turns that all clients share: statistics may have 100 KB. */
  async #answer(id: number, result: Promise<unknown>, byteLength: number): Promise<void> {
    const answer = await result.then(
      (value) => ({ id, value }),
      (error: unknown) => ({ id, error: fromText(errorText(error)) }),
    )
    const text = await slices
      .run(this.#pace.counted(answerText(answer)), byteLength, this.#gone)
      .catch(() => null)
    if (text === null) this.#unreceived-- // the client has gone
    else this.#connection.sendText(frameKinds.result, text, () => this.#unreceived--)
    this.#end(byteLength)
  }

  #end(byteLength: number): void {
    this.atWork--
    this.byteLength -= byteLength
    this.#ended()
  }
}

function* answerText(answer: { readonly id: number }): Pieces<string> {
  yield
  try {
    return yield* resultPieces(answer)
  } catch (error) {
    return messageText({ id: answer.id, error: fromText(errorText(error)) })
  }
}

/** Milliseconds of the event loop that a client's calls take at once. */
const callBurstMs = 5
/** What they take of it from then on. */
const callShare = 0.1

/**
 * Spaces the calls of a client that makes very many, so that other clients' requests do not wait for them: a call
 * of 40 bytes may ask for statistics of 100 KB.
 */
export class CallPace {
  readonly #nowMs: () => number
  readonly #pause: (ms: number, signal: AbortSignal) => Promise<void>
  #usedMs = 0
  #sinceMs: number

  constructor(
    nowMs: () => number = () => performance.now(),
    pause: (ms: number, signal: AbortSignal) => Promise<void> = (ms, signal) =>
      sleep(ms, undefined, { signal, ref: false }),
  ) {
    this.#nowMs = nowMs
    this.#pause = pause
    this.#sinceMs = nowMs()
  }

  /** Resolves when the next call may begin. */
  async turn(signal: AbortSignal): Promise<void> {
    const nowMs = this.#nowMs()
    this.#usedMs = Math.max(0, this.#usedMs - callShare * (nowMs - this.#sinceMs))
    this.#sinceMs = nowMs
    if (this.#usedMs > callBurstMs) await this.#pause((this.#usedMs - callBurstMs) / callShare, signal)
  }

  /** Counts the time that the pieces take. */
  *counted<T>(pieces: Pieces<T>): Pieces<T> {
    for (;;) {
      const beginMs = this.#nowMs()
      const { done, value } = pieces.next()
      this.#usedMs += this.#nowMs() - beginMs
      if (done) return value
      yield
    }
  }
}

/** Rings that are made as fast as clients come. */
const ringBurst = 128
/** Then one in this time. */
const ringMs = 5000

/**
 * Spaces the making of rings: the garbage collector counts their memory as its own, and marks the whole heap for
 * each pair. Clients that come faster use the socket.
 */
export class RingPace {
  readonly #nowMs: () => number
  #left = ringBurst
  #sinceMs: number

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
    this.#sinceMs = nowMs()
  }

  /** Whether rings may be made now. */
  take(): boolean {
    const nowMs = this.#nowMs()
    this.#left = Math.min(ringBurst, this.#left + (nowMs - this.#sinceMs) / ringMs)
    this.#sinceMs = nowMs
    if (this.#left < 1) return false
    this.#left--
    return true
  }

  /** A client has sent something invalid, and may come again at once: nothing is left of the burst. */
  violated(): void {
    this.#left = 0
    this.#sinceMs = this.#nowMs()
  }
}

const pulseMs = 1000
/** Checks of a client that receives nothing of its waiting data, before it is disconnected. */
const mostIdleLooks = 10

/**
 * Checks on a client whose socket is not read, or which does not read. The departure of such a client shows
 * only in writes, and answers for a suspended one would pile up without end.
 */
class ClientWatch {
  readonly #connection: Connection
  readonly #mostUnsentBytes: number
  readonly #isBlocked: () => boolean
  #timer: NodeJS.Timeout | undefined
  #sentBytes = 0
  #idleLooks = 0

  /** @param isBlocked whether reading from the client is paused. */
  constructor(connection: Connection, mostUnsentBytes: number, isBlocked: () => boolean) {
    this.#connection = connection
    this.#mostUnsentBytes = mostUnsentBytes
    this.#isBlocked = isBlocked
  }

  /** Checks until the cause has gone. */
  begin(): void {
    this.#timer ??= setInterval(() => this.#look(), pulseMs).unref()
  }

  end(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #look(): void {
    const { sentBytes, unsentBytes } = this.#connection
    const isIdle = unsentBytes >= this.#mostUnsentBytes && sentBytes === this.#sentBytes
    this.#idleLooks = isIdle ? this.#idleLooks + 1 : 0
    this.#sentBytes = sentBytes
    if (this.#idleLooks >= mostIdleLooks) this.#connection.close('it does not read its answers')
    else if (this.#isBlocked()) this.#connection.sendText(frameKinds.result, aliveResult)
    else if (unsentBytes < this.#mostUnsentBytes) this.end()
  }
}
