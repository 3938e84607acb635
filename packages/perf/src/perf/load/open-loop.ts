import type { SampleSource } from '../input/sample.ts'
import { Ending } from './ending.ts'
import type { LoadClock } from './load-clock.ts'
import type { Load, Send } from './load.ts'
import { TurnPacer, type Pacer } from './pacer.ts'
import type { Recorder } from './recorder.ts'
import type { Schedule } from './schedule.ts'

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
export interface OpenLoopOptions {
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
