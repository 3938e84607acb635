import type { Schedule } from './arrival-schedule.ts'
import type { Coming, Traffic } from './traffic.ts'

/** Requests that come when they were drawn to, whatever becomes of those before. */
export class OpenTraffic implements Traffic {
  readonly count: number
  readonly #schedule: Schedule
  #next = 0

  constructor(schedule: Schedule) {
    this.count = schedule.count
    this.#schedule = schedule
  }

  get nextMs(): number {
    return this.#next < this.count ? this.#schedule.timesMs[this.#next]! : Infinity
  }

  take(): Coming {
    const { models, rows } = this.#schedule
    const index = this.#next++
    return { model: models[index]!, rows: rows[index]! }
  }

  ended(): void {}
}
