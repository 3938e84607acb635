import { constants } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import type { Clock } from '../../base/clock.ts'
import type { Observers } from '../observers.ts'
import type { Arrival } from './arrival.ts'
import { ArrivalOrder, ArrivalRecorder } from './arrival-recorder.ts'

/**
 * Requests being recorded, for `zerohop perf --replay` and `zerohop simulate`: a line of JSON each, in the order in which they came,
 * an {@link Arrival}. No request is held up or failed by it: what a disk is too slow or too full for is left out, and counted.
 *
 * `engine.recordArrivals()` throws `ERR_INVALID_ARG` or `ERR_CLOSED`, and what Node.js throws for a file that cannot be written.
 */
export class ArrivalRecording {
  readonly #file: ArrivalFile
  readonly #order: ArrivalOrder
  readonly #recorder: ArrivalRecorder
  readonly #observers: Observers
  readonly #stopped: () => void
  #stopping: Promise<void> | null = null

  /** @internal */
  constructor(
    file: ArrivalFile,
    models: ReadonlySet<string> | null,
    observers: Observers,
    clock: Clock,
    stopped: () => void,
  ) {
    this.#file = file
    this.#stopped = stopped
    this.#order = new ArrivalOrder((arrival) => this.#file.add(arrival))
    this.#recorder = new ArrivalRecorder(this.#order, clock, models)
    this.#observers = observers
    observers.add(this.#recorder)
  }

  /** Requests in the file, or on their way to it. */
  get recorded(): number {
    return this.#file.recorded
  }

  /** Requests that are not, as the disk was too slow or could not be written. */
  get lost(): number {
    return this.#file.lost
  }

  /** Why nothing more is written; `null` while that is not so. */
  get failure(): Error | null {
    return this.#file.failure
  }

  /**
   * Ends the recording and resolves when it is written, or cannot be: see {@link failure}. Requests that are on their way are in it
   * without their latency. May be called more than once; closing the engine does so as well.
   */
  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop())
  }

  /** As {@link stop}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #stop(): Promise<void> {
    this.#observers.remove(this.#recorder)
    this.#order.end()
    await this.#file.close()
    this.#stopped()
  }
}

/** As much is written at once. */
const writtenAtOnceBytes = 1 << 16
/** As much may wait for the disk; what comes beyond it is lost. */
const waitingBytes = 1 << 23
/** What is less than that is written after so long. */
const longestWaitMs = 1000
/** A pipe without a reader is an error: opening it does not wait for one. */
const createOnly =
  constants.O_WRONLY |
  constants.O_CREAT |
  constants.O_TRUNC |
  (constants.O_NONBLOCK ?? 0) |
  (constants.O_NOCTTY ?? 0)

/** A recording being written. If the disk is slow or full, lines are dropped and counted, and no request waits. */
export class ArrivalFile {
  /** Requests that are in the file, or on their way to it. */
  recorded = 0
  /** Requests that were not written. */
  lost = 0
  /** Why writing has ended before its time; `null` while it has not. */
  failure: Error | null = null
  readonly #file: FileHandle
  #lines: string[] = []
  #bytes = 0
  #writing: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null
  /** Whole lines that are in the file. */
  #writtenBytes = 0

  /**
   * Begins a new file, in place of one that is there.
   *
   * @throws what Node.js throws for a file that cannot be written.
   */
  static async create(path: string): Promise<ArrivalFile> {
    return new ArrivalFile(await open(path, createOnly))
  }

  private constructor(file: FileHandle) {
    this.#file = file
  }

  /** Adds a request; those of a file are in the order of `atUs`. */
  add(arrival: Arrival): void {
    if (this.failure !== null || this.#bytes > waitingBytes) return void this.lost++
    const line = `${JSON.stringify(arrival)}\n`
    this.#lines.push(line)
    this.#bytes += line.length
    this.recorded++
    if (this.#bytes >= writtenAtOnceBytes) void this.#write()
    else this.#timer ??= setTimeout(() => void this.#write(), longestWaitMs).unref()
  }

  /** Writes what is left, and closes the file. Never rejects. */
  async close(): Promise<void> {
    while (this.#lines.length > 0 && this.failure === null) await this.#write()
    await this.#writing
    this.#clearTimer()
    await this.#file.close().catch((error: Error) => (this.failure ??= error))
  }

  #clearTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  #write(): Promise<void> {
    this.#clearTimer()
    return (this.#writing ??= this.#writeLines().finally(() => (this.#writing = null)))
  }

  async #writeLines(): Promise<void> {
    while (this.#lines.length > 0) {
      const lines = this.#lines
      this.#lines = []
      this.#bytes = 0
      try {
        const text = Buffer.from(lines.join(''))
        await this.#file.appendFile(text)
        this.#writtenBytes += text.length
      } catch (error) {
        this.failure = error as Error
        const unwritten = lines.length + this.#lines.length
        this.lost += unwritten
        this.recorded -= unwritten
        this.#lines = []
        // As far as it went, it would end with half a line.
        await this.#file.truncate(this.#writtenBytes).catch(() => {})
      }
      if (this.#bytes < writtenAtOnceBytes) return
    }
  }
}
