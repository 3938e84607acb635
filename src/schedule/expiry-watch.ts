import type { Clock } from '../base/clock.ts'
import { Alarm } from '../base/alarm.ts'
import { Expiries } from './expiries.ts'
import { expiresAtMs, type WaitingRequest } from '../request/infer-request.ts'

/** The timeouts and deadlines of what waits in a queue, and the only timer that the queue has. */
export class ExpiryWatch<E extends WaitingRequest> {
  readonly #expiries = new Expiries<E>()
  readonly #clock: Clock
  readonly #alarm: Alarm

  constructor(clock: Clock, ring: () => void) {
    this.#clock = clock
    this.#alarm = new Alarm(clock, ring)
  }

  /** Watches a request that has a timeout or a deadline. */
  watch(entry: E): void {
    const atMs = expiresAtMs(entry)
    if (atMs === Infinity) return
    this.#expiries.push(entry, atMs, this.#clock.nowMs())
    this.#alarm.set(atMs)
  }

  remove(entry: E): void {
    this.#expiries.remove(entry)
  }

  takeDue(nowMs: number): readonly E[] {
    return this.#expiries.takeDue(nowMs)
  }

  /** Rings at the next time that something expires. */
  setNext(): void {
    this.#alarm.set(this.#expiries.nextAtMs)
  }

  /** Rings at a time that was asked for. */
  setAlarm(atMs: number): void {
    this.#alarm.set(atMs)
  }

  clear(): void {
    this.#alarm.clear()
  }

  clearUnless(waiting: boolean): void {
    if (!waiting) this.#alarm.clear()
  }
}
