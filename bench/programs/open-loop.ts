import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { mulberry32 } from '../../test/models/random.ts'

/** Calls without a turn of the event loop between them: what comes over a network would not keep answers from coming. */
const mostPerTurn = 16

/**
 * Calls `send` at each of `timesMs`, ascending and counted from `startMs`, whatever became of the calls before: those whose
 * time passed while the event loop was held are made up for at once.
 *
 * @param send is told when it was meant to be called, on the clock of `performance.now()`.
 */
export async function openLoop(
  timesMs: ArrayLike<number>,
  send: (intendedMs: number) => void,
  startMs = performance.now(),
): Promise<void> {
  for (let next = 0; next < timesMs.length;) {
    const dueMs = startMs + timesMs[next]!
    const waitMs = dueMs - performance.now()
    // A timer may fire up to a millisecond early.
    if (waitMs > 0) await sleep(waitMs)
    else {
      send(dueMs)
      if (++next % mostPerTurn === 0) await nextTurn()
    }
  }
}

/** Times a constant interval apart, from one interval on. */
export function evenTimes(intervalMs: number, durationMs: number): Float64Array {
  return Float64Array.from(
    { length: Math.floor(durationMs / intervalMs) },
    (_, index) => (index + 1) * intervalMs,
  )
}

/** Times of a Poisson process, the same for the same seed. */
export function poissonTimes(seed: number, ratePerSecond: number, durationMs: number): number[] {
  const random = mulberry32(seed)
  const times: number[] = []
  for (let atMs = 0; ; times.push(atMs)) {
    atMs -= (Math.log(1 - random()) * 1000) / ratePerSecond
    if (atMs >= durationMs) return times
  }
}
