/** A run as it was recorded. */
export interface RecordedRun {
  /** When it started, in milliseconds since the first request. */
  readonly atMs: number
  /** Which request of the recording it was the first run of, counted from 0. */
  readonly request: number
  /** Requests of its batch; left out for 1. */
  readonly requests?: number
  readonly rows: number
  /** How long it took. */
  readonly ms: number
  readonly bucketKey: string
  /** From its first request until its batch was formed; `null` or left out where that had to wait for an instance. */
  readonly turnMs?: number | null
  /** From the request that filled it until its batch was formed, at once; `null` or left out for others. */
  readonly closingMs?: number | null
  /** From handing it over until it started; `null` or left out where another ran before it. */
  readonly handOverMs?: number | null
  /** From the end of the run before it until it started; `null` or left out where it did not wait behind one. */
  readonly betweenMs?: number | null
  /** By how much the timer was late by which its batch was closed; `null` or left out for others. */
  readonly timerMs?: number | null
  /** From handing it over until it started, where the application's thread ran it itself. */
  readonly inlineMs?: number | null
  /** From its end until the application's thread did something about it. */
  readonly wakeMs?: number | null
  /** Gathering its rows, and handing its outputs out until the first answer is given. */
  readonly gatherMs?: number
  readonly scatterMs?: number
  /** From one answer to the next; `null` or left out where there was one. */
  readonly answerMs?: number | null
}

/** How many requests a recording has, as far as its runs tell. */
export function lengthOf(runs: readonly RecordedRun[]): number {
  return runs.reduce((most, { request, requests = 1 }) => Math.max(most, request + requests), 1)
}

/** So many runs of requests that came one after the other say how fast the machine was then. */
export const neighbours = 15

/** For each run the first of its neighbours; there are {@link neighbours} of them, or as many as there are. */
export function firstNeighbour(index: number, count: number): number {
  return Math.max(0, Math.min(index - (neighbours >> 1), count - neighbours))
}

/** For each of `values`, the mean of its neighbours. */
export function localMeans(values: ArrayLike<number>): Float64Array {
  const { length: count } = values
  const sums = new Float64Array(count + 1)
  for (let index = 0; index < count; index++) sums[index + 1] = sums[index]! + values[index]!
  return Float64Array.from({ length: count }, (_, index) => {
    const from = firstNeighbour(index, count)
    const until = Math.min(count, from + neighbours)
    return (sums[until]! - sums[from]!) / (until - from)
  })
}

/** For each of `values`, the value in the middle of its neighbours. */
export function localMedians(values: Float64Array): Float64Array {
  const { length: count } = values
  return values.map((_, index) => {
    const from = firstNeighbour(index, count)
    const sorted = values.slice(from, from + neighbours).sort()
    return sorted[sorted.length >> 1]!
  })
}

/** How many ran at once during each run, itself included, on average. */
export function runningAtOnce(runs: readonly RecordedRun[]): Float64Array {
  const sharedMs = Float64Array.from(runs, ({ ms }) => ms)
  const open: number[] = [] // of those that may still run
  const byStart = [...runs.keys()].sort((a, b) => runs[a]!.atMs - runs[b]!.atMs)
  for (const index of byStart) {
    const { atMs, ms } = runs[index]!
    let kept = 0
    for (const other of open) {
      const { atMs: otherMs, ms: otherTook } = runs[other]!
      if (otherMs + otherTook <= atMs) continue
      const overlapMs = Math.min(atMs + ms, otherMs + otherTook) - atMs
      sharedMs[index]! += overlapMs
      sharedMs[other]! += overlapMs
      open[kept++] = other
    }
    open.length = kept
    open.push(index)
  }
  return sharedMs.map((shared, index) => (runs[index]!.ms === 0 ? 1 : shared / runs[index]!.ms))
}
