import { Worker } from 'node:worker_threads'
import { mulberry32 } from 'zerohop/internals'
import { ownFile } from '../../own-files.ts'
import type { SampleSource } from '../input/sample-source.ts'
import { Ending, type Load, type LoadClock, type Send } from './load.ts'
import type { Recorder } from './recorder.ts'

/** Sent without a turn of the event loop between them, when several are due: more would keep answers from coming. */
const mostPerTurn = 16

/** Requests waiting for their answers, beyond which further ones are failures of their own: memory has an end. */
const mostPending = 200_000

/** Their code. */
export const notSentCode = 'NOT_SENT'

/** What a request counts as that found too many waiting before it. */
class NotSent extends Error {
  readonly code = notSentCode
}
const notSent = new NotSent()

/** Settings of an {@link OpenLoop}. */
interface OpenLoopOptions {
  /** Callers that send in turn, for sequences. Default 1. */
  readonly callers?: number
  /** Whether a caller waits for its answer before it sends again: its next request is late then. Default `false`. */
  readonly serial?: boolean
  /** Makes what wakes it when a request is due. Default: timers, and turns of the event loop. */
  readonly pacer?: (clock: LoadClock) => Pacer
}

/** Sends by a schedule, whatever becomes of the requests before; they are counted from when they were meant to be sent. */
export class OpenLoop implements Load {
  readonly isOpen = true
  readonly #source: SampleSource
  readonly #schedule: Schedule
  readonly #finished = new Ending()
  readonly #idle = new Ending()
  readonly #options: OpenLoopOptions
  /** Callers whose turn it can be. */
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

/** When requests are meant to be sent: milliseconds since the start, ascending; it may end. */
export type Schedule = Iterator<number, void>

/** A constant interval apart. */
export function* constantSchedule(ratePerSecond: number): Generator<number, void> {
  for (let index = 0; ; index++) yield (index * 1000) / ratePerSecond
}

/** As a Poisson process has it: the intervals are distributed exponentially. The same for the same seed. */
export function* poissonSchedule(ratePerSecond: number, seed: number): Generator<number, void> {
  const random = mulberry32(seed)
  for (let atMs = 0; ;) {
    atMs -= (Math.log(1 - random()) * 1000) / ratePerSecond
    yield atMs
  }
}

/** By the intervals between requests, in microseconds, which begin again when they are through. */
export function* intervalSchedule(intervalsUs: readonly number[]): Generator<number, void> {
  let atUs = 0
  for (let index = 0; ; index++) {
    atUs += intervalsUs[index % intervalsUs.length]!
    yield atUs / 1000
  }
}

/** So many of a schedule. */
export function* firstOf(schedule: Schedule, count: number): Generator<number, void> {
  for (let index = 0; index < count; index++) {
    const { done, value } = schedule.next()
    if (done) return
    yield value
  }
}

/** Wakes a sender when its next request is due. */
export interface Pacer {
  /** Calls back at that moment, or as soon after as can be. One at a time. */
  wakeAt(atMs: number, callback: () => void): void
  /** Calls nobody any more. */
  stop(): void
}

/** A timer of Node.js counts whole milliseconds of a clock that is read once a turn: it may be up to one late, and is set for one earlier. */
const shortestTimerMs = 2

/** Sleeps while there is time, and looks again each turn of the event loop when there is little, so that answers go on coming. */
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

/** What the thread is told: where the next moment is written, and the clock that it counts by. */
export interface MetronomeSetup {
  /** The number of the moment that is waited for, -1 for the end; it is written after the moment. */
  readonly number: Int32Array
  /** That moment, in milliseconds since {@link originNs}. */
  readonly atMs: Float64Array
  /** On the clock of `process.hrtime`, which all threads share. */
  readonly originNs: bigint
}

/** What is left when a wake-up comes is looked at each turn of the event loop: a thread is not woken for so little. */
const shortestSleepMs = 0.1

/**
 * Wakes a sender by a thread that does nothing but sleep until the next moment. A timer of Node.js is up to a millisecond late, and
 * to look again each turn of the event loop takes a core from the models that are measured; this takes a few microseconds for each
 * wake-up, and is as late as the system wakes a thread. Until the thread has started, timers do.
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
    // Without it timers go on as they do.
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

/** What wakes the senders of real requests: whatever looks again and again takes its core from the model. */
export const metronome = (clock: LoadClock): Pacer => new Metronome(clock)
