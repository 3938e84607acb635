import { Worker } from 'node:worker_threads'
import { mulberry32 } from 'zerohop/internals'
import { ownFile } from '../../own-files.ts'
import type { SampleSource } from '../input/sample-source.ts'
import { Ending, type Load, type LoadClock, type Send } from './load.ts'
import type { Recorder } from './recorder.ts'

/** Most due requests sent in one turn of the event loop: more would delay answers. */
const mostPerTurn = 16

/** Most requests waiting for answers. Further ones fail without being sent, to limit memory. */
const mostPending = 200_000

/** The error code of those. */
export const notSentCode = 'NOT_SENT'

/** The failure of a request when too many are waiting. */
class NotSent extends Error {
  readonly code = notSentCode
}
const notSent = new NotSent()

/** Settings of an {@link OpenLoop}. */
interface OpenLoopOptions {
  /** Callers that send in turn, for sequences. Default 1. */
  readonly callers?: number
  /**
   * Whether a caller waits for its answer before sending again, so that its next request may be late. Default
   * `false`.
   */
  readonly serial?: boolean
  /** Makes the pacer that wakes it when a request is due. Default: timers and turns of the event loop. */
  readonly pacer?: (clock: LoadClock) => Pacer
}

/**
 * Sends by a schedule, without waiting for earlier requests. Latencies count from the intended moment of
 * sending.
 */
export class OpenLoop implements Load {
  readonly isOpen = true
  readonly #source: SampleSource
  readonly #schedule: Schedule
  readonly #finished = new Ending()
  readonly #idle = new Ending()
  readonly #options: OpenLoopOptions
  /** Callers that may send next. */
  readonly #free: number[]
  #pacer: Pacer | null = null
  #send: Send | null = null
  #recorder: Recorder | null = null
  #startMs = 0
  #nextMs: number | null = null
  #waitsForCaller = false
  #stopped = false

  constructor(source: SampleSource, schedule: Schedule, options: OpenLoopOptions = {}) {
    this.#source = source
    this.#schedule = schedule
    this.#options = options
    this.#free = Array.from({ length: options.callers ?? 1 }, (_, caller) => caller)
  }

  get finished(): Promise<void> {
    return this.#finished.promise
  }

  start(send: Send, recorder: Recorder): void {
    this.#send = send
    this.#recorder = recorder
    this.#pacer = (this.#options.pacer ?? ((clock) => new TurnPacer(clock)))(recorder.clock)
    this.#startMs = recorder.clock.nowMs()
    this.#advance()
    this.#pace()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#pacer?.stop()
    this.#endIfDone()
    await this.#idle.promise
  }

  #advance(): void {
    const { done, value } = this.#schedule.next()
    this.#nextMs = done ? null : this.#startMs + value
  }

  readonly #pace = (): void => {
    const { clock } = this.#recorder!
    for (let sent = 0; this.#nextMs !== null && !this.#stopped; sent++) {
      if (this.#free.length === 0) {
        this.#waitsForCaller = true
        return
      }
      if (this.#nextMs > clock.nowMs()) return this.#pacer!.wakeAt(this.#nextMs, this.#pace)
      if (sent === mostPerTurn) return clock.nextTurn(this.#pace)
      const caller = this.#free.shift()!
      void this.#request(this.#nextMs, caller)
      if (this.#options.serial !== true) this.#free.push(caller)
      this.#advance()
    }
    this.#endIfDone()
  }

  async #request(intendedMs: number, caller: number): Promise<void> {
    const recorder = this.#recorder!
    const sample = this.#source.next(caller)
    const tooMany = recorder.pending >= mostPending
    const sentMs = recorder.sentLate(intendedMs)
    try {
      if (tooMany) throw notSent
      await this.#send!(sample)
      recorder.answered(intendedMs, sentMs, sample)
    } catch (error) {
      recorder.failed(intendedMs, sentMs, sample, error)
      this.#source.failed?.(caller)
    }
    if (this.#options.serial === true) this.#free.push(caller)
    if (this.#waitsForCaller) {
      this.#waitsForCaller = false
      this.#pace()
    }
    this.#endIfDone()
  }

  #endIfDone(): void {
    if (this.#recorder !== null && this.#recorder.pending > 0) return
    if (this.#nextMs === null) this.#finished.resolve()
    if (this.#nextMs === null || this.#stopped) this.#idle.resolve()
  }
}

/** Intended moments of sending: milliseconds since the start, ascending. It may end. */
export type Schedule = Iterator<number, void>

/** At constant intervals. */
export function* constantSchedule(ratePerSecond: number): Generator<number, void> {
  for (let index = 0; ; index++) yield (index * 1000) / ratePerSecond
}

/** A Poisson process: intervals have an exponential distribution. Equal seeds give equal schedules. */
export function* poissonSchedule(ratePerSecond: number, seed: number): Generator<number, void> {
  const random = mulberry32(seed)
  for (let atMs = 0; ;) {
    atMs -= (Math.log(1 - random()) * 1000) / ratePerSecond
    yield atMs
  }
}

/** By the given intervals between requests, in microseconds, which repeat. */
export function* intervalSchedule(intervalsUs: readonly number[]): Generator<number, void> {
  let atUs = 0
  for (let index = 0; ; index++) {
    atUs += intervalsUs[index % intervalsUs.length]!
    yield atUs / 1000
  }
}

/** The first so many moments of a schedule. */
export function* firstOf(schedule: Schedule, count: number): Generator<number, void> {
  for (let index = 0; index < count; index++) {
    const { done, value } = schedule.next()
    if (done) return
    yield value
  }
}

/** Wakes a sender when its next request is due. */
export interface Pacer {
  /** Calls back at that moment, or as soon after it as possible. One call at a time. */
  wakeAt(atMs: number, callback: () => void): void
  /** Cancels the callback. */
  stop(): void
}

/**
 * Node.js timers count whole milliseconds of a clock that is read once per turn. They may be up to 1 ms late,
 * so they are set 1 ms early.
 */
const shortestTimerMs = 2

/**
 * Sleeps while there is time. Near the moment it checks at each turn of the event loop, so that answers are
 * still received.
 */
export class TurnPacer implements Pacer {
  readonly #clock: LoadClock
  #timer: unknown = null
  #stopped = false

  constructor(clock: LoadClock) {
    this.#clock = clock
  }

  wakeAt(atMs: number, callback: () => void): void {
    if (this.#stopped) return
    const clock = this.#clock
    const leftMs = atMs - clock.nowMs()
    if (leftMs <= 0) callback()
    else if (leftMs >= shortestTimerMs)
      this.#timer = clock.setTimer(() => this.wakeAt(atMs, callback), Math.floor(leftMs) - 1)
    else clock.nextTurn(() => this.wakeAt(atMs, callback))
  }

  stop(): void {
    this.#stopped = true
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
  }
}

/** The thread's parameters: where the next moment is written, and its clock. */
export interface MetronomeSetup {
  /** The number of the awaited moment, -1 for the end. It is written after the moment. */
  readonly number: Int32Array
  /** The moment, in milliseconds since {@link originNs}. */
  readonly atMs: Float64Array
  /** On the clock of `process.hrtime`, which all threads share. */
  readonly originNs: bigint
}

/** Shorter waits are done by checking at each turn of the event loop, without waking the thread. */
const shortestSleepMs = 0.1

/**
 * Wakes a sender from a thread that only sleeps until the next moment. Node.js timers are up to a millisecond
 * late, and checking at each turn of the event loop takes a core from the measured models. This takes a few
 * microseconds per wake-up, and is only as late as the system wakes a thread. Until the thread has started,
 * timers are used.
 */
export class Metronome implements Pacer {
  readonly #clock: LoadClock
  readonly #worker: Worker
  readonly #number = new Int32Array(new SharedArrayBuffer(4))
  readonly #atMs = new Float64Array(new SharedArrayBuffer(8))
  readonly #originMs: number
  readonly #meanwhile: TurnPacer
  #isReady = false
  #awaited: (() => void) | null = null
  #stopped = false

  constructor(clock: LoadClock) {
    this.#clock = clock
    this.#meanwhile = new TurnPacer(clock)
    this.#originMs = clock.nowMs()
    const setup: MetronomeSetup = {
      number: this.#number,
      atMs: this.#atMs,
      originNs: process.hrtime.bigint(),
    }
    this.#worker = new Worker(ownFile('perf/load/metronome-thread.js'), { workerData: setup, execArgv: [] })
    // Without the thread, timers are used.
    this.#worker.on('error', () => {
      this.#isReady = false
      this.#wake()
    })
    this.#worker.on('online', () => (this.#isReady = true))
    this.#worker.on('message', this.#wake)
  }

  wakeAt(atMs: number, callback: () => void): void {
    if (this.#stopped) return
    const leftMs = atMs - this.#clock.nowMs()
    if (leftMs <= 0) return callback()
    const again = () => this.wakeAt(atMs, callback)
    if (leftMs < shortestSleepMs) return this.#clock.nextTurn(again)
    if (!this.#isReady) return this.#meanwhile.wakeAt(atMs, callback)
    this.#awaited = again
    this.#atMs[0] = atMs - this.#originMs
    Atomics.add(this.#number, 0, 1)
    Atomics.notify(this.#number, 0)
  }

  stop(): void {
    this.#stopped = true
    this.#meanwhile.stop()
    Atomics.store(this.#number, 0, -1)
    Atomics.notify(this.#number, 0)
    void this.#worker.terminate()
  }

  readonly #wake = (): void => {
    const awaited = this.#awaited
    this.#awaited = null
    awaited?.()
  }
}

/** The pacer for senders of real requests: checking in a loop would take a core from the model. */
export const metronome = (clock: LoadClock): Pacer => new Metronome(clock)
