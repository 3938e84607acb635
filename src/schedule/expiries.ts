import { IndexedHeap, type HeapItem } from '../base/indexed-heap.ts'
import { expiresAtMs, type InferRequest } from '../request/infer-request.ts'

/** Requests that expire within one interval. */
class TimeSlot implements HeapItem {
  readonly startMs: number
  readonly widthMs: number
  entries: (InferRequest | null)[] = []
  live = 0
  heapIndex = -1

  constructor(startMs: number, widthMs: number) {
    this.startMs = startMs
    this.widthMs = widthMs
  }
}

const fineMs = 1
/** Width of the slots for requests that expire later than twice this. They move to fine slots when that time comes near. */
const coarseMs = 128
const holesAllowed = 64
const nothing: never[] = []

/**
 * Waiting requests by when they expire. They are in slots of a millisecond, or in wider slots if that time is far off, and the
 * slots are in a heap. So adding and removing a request takes constant time however many wait, and no removed request stays.
 * A watched request may get more time, or no limit: that takes effect when its slot is due.
 */
export class Expiries<E extends InferRequest> {
  /** Number of watched requests; a field, because a queue reads it for each batch. */
  size = 0
  readonly #slots = new Map<number, TimeSlot>()
  readonly #heap = new IndexedHeap<TimeSlot>(isBefore)
  #last: TimeSlot | null = null // of the last request: often the next one's too

  /** Watches a request that expires at `atMs`. */
  push(entry: E, atMs: number, nowMs: number): void {
    const widthMs = atMs - nowMs > 2 * coarseMs ? coarseMs : fineMs
    const startMs = Math.floor(atMs / widthMs) * widthMs
    let slot = this.#last
    if (slot === null || slot.startMs !== startMs || slot.widthMs !== widthMs)
      slot = this.#last = this.#slotAt(startMs, widthMs)
    entry.expirySlot = slot
    entry.expiryIndex = slot.entries.push(entry) - 1
    slot.live++
    this.size++
  }

  /** Stops watching a request, if it is watched. */
  remove(entry: E): void {
    const slot = entry.expirySlot as TimeSlot | null
    if (slot === null) return
    slot.entries[entry.expiryIndex] = null
    slot.live--
    this.size--
    entry.expirySlot = null
    if (slot.live === 0) this.#drop(slot)
    else if (slot.entries.length > 2 * slot.live + holesAllowed) compact(slot)
  }

  /** Stops watching all requests that have expired, and returns them, the earliest first. */
  takeDue(nowMs: number): readonly E[] {
    let due: E[] = nothing
    for (let slot = this.#heap.peek(); slot !== null && slot.startMs <= nowMs; slot = this.#heap.peek()) {
      if (slot.widthMs === coarseMs) {
        this.#refine(slot, nowMs)
        continue
      }
      const found = due.length
      let putOff: E[] = nothing
      for (const entry of slot.entries) {
        if (entry === null) continue
        const atMs = expiresAtMs(entry)
        if (atMs <= nowMs) {
          if (due === nothing) due = []
          due.push(entry as E)
        } else if (atMs >= slot.startMs + fineMs) {
          if (putOff === nothing) putOff = []
          putOff.push(entry as E)
        }
      }
      if (due.length === found && putOff.length === 0) break
      for (let index = found; index < due.length; index++) this.remove(due[index]!)
      for (const entry of putOff) {
        this.remove(entry)
        this.#watchAgain(entry, nowMs)
      }
    }
    return due.length < 2 ? due : due.sort((a, b) => expiresAtMs(a) - expiresAtMs(b))
  }

  /** When to look again: when the next request expires, or a coarse slot begins; `Infinity` for never. */
  get nextAtMs(): number {
    const first = this.#heap.peek()
    if (first?.widthMs === coarseMs) return first.startMs
    if (first === null) return Infinity
    let atMs = first.startMs + fineMs // for requests that were given more time
    for (const entry of first.entries) if (entry !== null) atMs = Math.min(atMs, expiresAtMs(entry))
    return atMs
  }

  #slotAt(startMs: number, widthMs: number): TimeSlot {
    const key = widthMs === fineMs ? startMs : -startMs - 1 // a coarse slot may start with a fine one
    let slot = this.#slots.get(key)
    if (slot === undefined) {
      this.#slots.set(key, (slot = new TimeSlot(startMs, widthMs)))
      this.#heap.push(slot)
    }
    return slot
  }

  #drop(slot: TimeSlot): void {
    this.#slots.delete(slot.widthMs === fineMs ? slot.startMs : -slot.startMs - 1)
    this.#heap.remove(slot)
    if (this.#last === slot) this.#last = null
  }

  /** Sorts the requests of a coarse slot into fine ones. */
  #refine(slot: TimeSlot, nowMs: number): void {
    this.#drop(slot)
    this.size -= slot.live
    for (const entry of slot.entries) if (entry !== null) this.#watchAgain(entry as E, nowMs)
  }

  #watchAgain(entry: E, nowMs: number): void {
    const atMs = expiresAtMs(entry)
    if (atMs === Infinity) entry.expirySlot = null
    else this.push(entry, atMs, nowMs)
  }
}

/** A coarse slot comes before a fine one that starts at the same time: the next request to expire may be in either. */
function isBefore(a: TimeSlot, b: TimeSlot): boolean {
  return a.startMs < b.startMs || (a.startMs === b.startMs && a.widthMs > b.widthMs)
}

function compact(slot: TimeSlot): void {
  slot.entries = slot.entries.filter((entry) => entry !== null)
  for (const [index, entry] of slot.entries.entries()) entry!.expiryIndex = index
}
