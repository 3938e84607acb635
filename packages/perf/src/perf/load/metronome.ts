import { Worker } from 'node:worker_threads'
import { ownFile } from '../../own-files.ts'
import type { LoadClock } from './load-clock.ts'
import { TurnPacer, type Pacer } from './pacer.ts'

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
