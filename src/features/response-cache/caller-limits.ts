import type { Clock } from '../../base/clock.ts'
import { Alarm } from '../../base/alarm.ts'
import { Expiries } from '../../schedule/expiries.ts'
import { expiresAtMs } from '../../request/infer-request.ts'
import type { Caller } from './shared-run.ts'

/** Watches the timeouts and deadlines of callers that share a run, which the queue does not know. */
export class CallerLimits {
  readonly #clock: Clock
  readonly #expired: (caller: Caller, nowMs: number) => void
  readonly #expiries = new Expiries<Caller>()
  readonly #alarm: Alarm
  #watched = 0

  /** @param expired told when a caller's first limit has passed. */
  constructor(clock: Clock, expired: (caller: Caller, nowMs: number) => void) {
    this.#clock = clock
    this.#expired = expired
    this.#alarm = new Alarm(clock, () => this.#ring())
  }

  /** Watches a caller, if it has a limit. */
  watch(caller: Caller): void {
    const atMs = expiresAtMs(caller)
    if (atMs === Infinity || caller.expirySlot !== null) return
    this.#watched++
    this.#expiries.push(caller, atMs, this.#clock.nowMs())
    this.#alarm.set(atMs)
  }

  /** Lets go of a caller; nothing happens when it is not watched. */
  unwatch(caller: Caller): void {
    if (caller.expirySlot === null) return
    this.#expiries.remove(caller)
    if (--this.#watched === 0) this.#alarm.clear()
  }

  #ring(): void {
    const nowMs = this.#clock.nowMs()
    const due = this.#expiries.takeDue(nowMs)
    this.#watched -= due.length
    for (const caller of due) this.#expired(caller, nowMs)
    this.#alarm.set(this.#expiries.nextAtMs)
  }
}
