import { mulberry32 } from 'zerohop/internals'

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
