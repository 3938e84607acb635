import { IndexedHeap, type Clock } from 'zerohop/internals'

interface VirtualTimer {
  /** Kept by the heap. */
  heapIndex: number
  readonly atMs: number
  /** Timers of one moment fire in the order in which they were set. */
  readonly order: number
  readonly callback: () => void
}

/** Time that jumps from one event to the next. */
export class VirtualClock implements Clock {
  readonly #timers = new IndexedHeap<VirtualTimer>((a, b) =>
    a.atMs === b.atMs ? a.order < b.order : a.atMs < b.atMs,
  )
  #nowMs = 0
  #set = 0

  nowMs(): number {
    return this.#nowMs
  }

  /** When the next timer fires; `Infinity` without one. */
  get nextMs(): number {
    return this.#timers.peek()?.atMs ?? Infinity
  }

  setTimer(callback: () => void, delayMs: number): unknown {
    const timer: VirtualTimer = { heapIndex: -1, atMs: this.#nowMs + delayMs, order: this.#set++, callback }
    this.#timers.push(timer)
    return timer
  }

  /** Clearing a timer that has fired does nothing. */
  clearTimer(timer: unknown): void {
    const set = timer as VirtualTimer
    if (set.heapIndex === -1) return
    this.#timers.remove(set)
    set.heapIndex = -1
  }

  /** Moves to the next timer and fires it. */
  fireNext(): void {
    const timer = this.#timers.peek()!
    this.clearTimer(timer)
    this.#nowMs = timer.atMs
    timer.callback()
  }

  /** Advances to a time before which no timer is due. */
  advanceTo(nowMs: number): void {
    this.#nowMs = nowMs
  }
}
