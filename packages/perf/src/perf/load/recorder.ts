import type { Sample } from '../input/sample.ts'
import type { LoadClock } from './load-clock.ts'
import { delayedAfterUs, LoadWindow } from './load-window.ts'
import type { RequestLog } from './request-log.ts'

/** Notes what becomes of requests: each belongs to the window in which it ends. */
export class Recorder {
  readonly clock: LoadClock
  readonly #log: RequestLog | null
  #window: LoadWindow
  #pending = 0
  #ended = 0
  #firstSentMs = Infinity
  #lastEndedMs = 0
  #awaited = -1
  #onAwaited: () => void = () => {}

  constructor(clock: LoadClock, log: RequestLog | null = null) {
    this.clock = clock
    this.#log = log
    this.#window = new LoadWindow(clock.nowMs())
  }

  /** Requests that were sent and have not ended. */
  get pending(): number {
    return this.#pending
  }

  /** Requests that ended since it was made. */
  get ended(): number {
    return this.#ended
  }

  /** When the first request was sent and the last one ended, since it was made. */
  get span(): { readonly firstSentMs: number; readonly lastEndedMs: number } {
    return { firstSentMs: this.#firstSentMs, lastEndedMs: this.#lastEndedMs }
  }

  /** What has ended in the window that goes on. */
  get current(): LoadWindow {
    return this.#window
  }

  /** Ends the window that goes on, and begins the next. */
  cut(): LoadWindow {
    const window = this.#window
    window.endMs = this.clock.nowMs()
    this.#window = new LoadWindow(window.endMs)
    return window
  }

  /** Calls back as soon as so many requests have ended, before anything of a further one is noted. */
  onceEnded(count: number, callback: () => void): void {
    this.#awaited = count
    this.#onAwaited = callback
  }

  /** A request is about to be sent; when that is. */
  sent(): number {
    const nowMs = this.clock.nowMs()
    if (this.#firstSentMs === Infinity) this.#firstSentMs = nowMs
    this.#pending++
    this.#window.sentCount++
    return nowMs
  }

  /** As {@link sent}, of one that was meant to be sent at a certain moment. */
  sentLate(intendedMs: number): number {
    const nowMs = this.sent()
    const lagUs = Math.max(0, nowMs - intendedMs) * 1000
    this.#window.sendLag.record(lagUs)
    if (lagUs > delayedAfterUs) this.#window.delayedCount++
    return nowMs
  }

  /** A request was answered, which was meant to be sent, and was sent, when it is said. */
  answered(intendedMs: number, sentMs: number, sample: Sample): void {
    const nowMs = this.clock.nowMs()
    const window = this.#window
    window.requestCount++
    window.inferenceCount += sample.rows
    window.latency.record((nowMs - intendedMs) * 1000)
    this.#log?.push(intendedMs, sentMs, nowMs, sample, null)
    this.#end(nowMs)
  }

  /** A request was not answered. */
  failed(intendedMs: number, sentMs: number, sample: Sample, error: unknown): void {
    const nowMs = this.clock.nowMs()
    const code = codeOf(error)
    const { failures } = this.#window
    failures[code] = (failures[code] ?? 0) + 1
    this.#log?.push(intendedMs, sentMs, nowMs, sample, code)
    this.#end(nowMs)
  }

  #end(nowMs: number): void {
    this.#pending--
    this.#lastEndedMs = nowMs
    if (++this.#ended === this.#awaited) this.#onAwaited()
  }
}

/** The code of an error, its name where it has none. */
export function codeOf(error: unknown): string {
  const { code, name } = Object(error) as { code?: unknown; name?: unknown }
  return typeof code === 'string' ? code : typeof name === 'string' ? name : typeof error
}
