import { type Arrival, IndexedHeap, type HeapItem } from 'zerohop/internals'
import { Fifo } from './fifo.ts'
import { followersOf, type Follower } from './followers.ts'
import type { Coming, Traffic } from './traffic.ts'

/** Requests that come when others were answered. */
interface Released extends HeapItem {
  readonly endedMs: number
  atMs: number
  readonly arrivals: Fifo<{ readonly arrival: number; readonly atMs: number }>
}

/**
 * Requests as they were recorded, at any speed; all of them for one model. Those that were recorded as made on an answer come when
 * that answer is given here: callers in a loop wait for slow answers, and go on sooner after fast ones.
 */
export class RecordedTraffic implements Traffic {
  readonly count: number
  readonly #arrivals: readonly Arrival[]
  readonly #speed: number
  readonly #followers: ReadonlyMap<number, readonly Follower[]>
  /** Those that wait for no answer. */
  readonly #open: readonly number[]
  readonly #released = new IndexedHeap<Released>((a, b) => a.atMs < b.atMs)
  #last: Released | null = null
  /** Of each that came, which of the recorded it is. */
  readonly #came: number[] = []
  #next = 0

  /** @param arrivals in the order of `atUs`. */
  constructor(arrivals: readonly Arrival[], speed: number) {
    this.count = arrivals.length
    this.#arrivals = arrivals
    this.#speed = speed
    this.#followers = followersOf(arrivals)
    const following = new Set(
      [...this.#followers.values()].flatMap((own) => own.map(({ arrival }) => arrival)),
    )
    this.#open = Array.from(arrivals.keys()).filter((index) => !following.has(index))
  }

  get nextMs(): number {
    return Math.min(this.#nextOpenMs, this.#released.peek()?.atMs ?? Infinity)
  }

  get #nextOpenMs(): number {
    const next = this.#open[this.#next]
    return next === undefined ? Infinity : this.#arrivals[next]!.atUs / 1000 / this.#speed
  }

  take(): Coming {
    const released = this.#released.peek()
    let index: number
    let came = {}
    if (released !== null && released.atMs <= this.#nextOpenMs) {
      const { arrival, atMs: cameMs } = released.arrivals.shift()!
      if (released.arrivals.size === 0) this.#released.remove(released)
      ;[index, came] = [arrival, { cameMs }]
    } else index = this.#open[this.#next++]!
    this.#came.push(index)
    const arrival = this.#arrivals[index]!
    const { rows, priority, timeoutMs, deadlineMs, cancelledUs, decodedUs, shared, latencyUs } = arrival
    const cancelMs = cancelledUs === undefined ? undefined : cancelledUs / 1000
    const sharedMs = shared === true && latencyUs !== undefined ? latencyUs / 1000 : undefined
    return {
      model: 0,
      rows,
      bucketKey: bucketOf(arrival),
      priority,
      timeoutMs,
      deadlineMs,
      ...(decodedUs === undefined ? {} : { decodeMs: decodedUs / 1000 }),
      cancelMs,
      sharedMs,
      ...came,
    }
  }

  ended(nowMs: number, index: number): void {
    for (const follower of this.#followers.get(this.#came[index]!) ?? []) this.#release(follower, nowMs)
  }

  /** Those that follow from answers of one moment come together: the library forms no batch before all of them are there. */
  #release({ arrival, afterMs }: Follower, endedMs: number): void {
    const atMs = endedMs + afterMs
    if (this.#last === null || this.#last.endedMs !== endedMs || this.#last.arrivals.size === 0) {
      this.#last = { heapIndex: -1, endedMs, atMs, arrivals: new Fifo() }
      this.#released.push(this.#last)
    }
    this.#last.arrivals.push({ arrival, atMs })
    this.#last.atMs = Math.max(this.#last.atMs, atMs)
    this.#released.update(this.#last)
  }
}

/** Which requests may share a batch: those whose dims are equal but for the rows. */
export function bucketOf({ dims, rows }: Pick<Arrival, 'dims' | 'rows'>): string {
  if (dims === undefined) return ''
  const ofRow = Object.entries(dims).map(([name, of]) => [name, of[0] === rows ? of.slice(1) : of] as const)
  return JSON.stringify(ofRow.sort(([a], [b]) => (a < b ? -1 : 1)))
}
