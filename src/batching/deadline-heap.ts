import type { QueueEntry } from './entry.ts'

/**
 * Binary min-heap of waiting requests by when they expire. Entries that left the queue another way stay until they surface
 * or until they outnumber the waiting ones, when the heap is rebuilt: removal stays O(1), memory stays bounded.
 */
export class DeadlineHeap<E extends QueueEntry> {
  #entries: E[] = []
  #stale = 0

  /** Entries held, stale ones included. */
  get size(): number {
    return this.#entries.length
  }

  push(entry: E): void {
    entry.watched = true
    const entries = this.#entries
    let index = entries.length
    entries.push(entry)
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (entries[parent]!.expiresAtMs <= entry.expiresAtMs) break
      entries[index] = entries[parent]!
      index = parent
    }
    entries[index] = entry
  }

  /** Says that one entry in the heap no longer waits. */
  markStale(): void {
    if (++this.#stale > 64 && this.#stale * 2 >= this.#entries.length) this.dropStale()
  }

  /** Forgets every entry that does not wait. */
  dropStale(): void {
    if (this.#stale === 0) return
    const entries = this.#entries
    this.#entries = []
    this.#stale = 0
    for (const entry of entries) {
      if (entry.bucket !== null) this.push(entry)
      else entry.watched = false
    }
  }

  /** The waiting entry with that expires first, or `null`. */
  peek(): E | null {
    while (this.#entries.length > 0) {
      const first = this.#entries[0]!
      if (first.bucket !== null) return first
      this.#stale--
      this.pop()
    }
    return null
  }

  /** Takes the entry that expires first out. */
  pop(): void {
    const entries = this.#entries
    entries[0]!.watched = false
    const last = entries.pop()!
    const length = entries.length
    if (length === 0) return
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child >= length) break
      if (child + 1 < length && entries[child + 1]!.expiresAtMs < entries[child]!.expiresAtMs) child++
      if (entries[child]!.expiresAtMs >= last.expiresAtMs) break
      entries[index] = entries[child]!
      index = child
    }
    entries[index] = last
  }
}
