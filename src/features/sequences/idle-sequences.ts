import type { Clock } from '../../base/clock.ts'
import { Alarm } from '../../base/alarm.ts'
import type { Sequence } from './sequence.ts'

const longestTimerMs = 2 ** 31 - 1

/** Sequences without a request, which end when they have been so for long enough. */
export class IdleSequences {
  readonly #clock: Clock
  readonly #maxMs: number
  readonly #onExpired: (sequence: Sequence) => void
  readonly #afterwards: () => void
  readonly #alarm: Alarm
  /** The longest idle first. */
  readonly #all = new Set<Sequence>()

  /** @param afterwards called once some have expired. */
  constructor(clock: Clock, maxMs: number, onExpired: (sequence: Sequence) => void, afterwards: () => void) {
    this.#clock = clock
    this.#maxMs = maxMs
    this.#onExpired = onExpired
    this.#afterwards = afterwards
    this.#alarm = new Alarm(clock, () => this.expire())
  }

  add(sequence: Sequence): void {
    sequence.usedAtMs = this.#clock.nowMs()
    this.#all.add(sequence)
    this.#ringFor(sequence)
  }

  delete(sequence: Sequence): void {
    this.#all.delete(sequence)
  }

  /** Ends those whose time has come. */
  expire(): void {
    const nowMs = this.#clock.nowMs()
    let any = false
    for (const sequence of this.#all) {
      const atMs = sequence.usedAtMs + this.#maxMs
      if (atMs > nowMs) {
        this.#ringFor(sequence)
        break
      }
      this.#all.delete(sequence)
      this.#onExpired(sequence)
      any = true
    }
    if (any) this.#afterwards()
  }

  /** Again and again where no timer is so long. */
  #ringFor({ usedAtMs }: Sequence): void {
    this.#alarm.set(Math.min(usedAtMs + this.#maxMs, this.#clock.nowMs() + longestTimerMs))
  }

  close(): void {
    this.#all.clear()
    this.#alarm.clear()
  }
}
