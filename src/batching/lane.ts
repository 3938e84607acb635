import type { QueueEntry } from './entry.ts'

/** First-in first-out list of the requests that may share a batch; linked through the entries themselves. */
export class Lane<E extends QueueEntry> {
  head: E | null = null
  tail: E | null = null
  count = 0
  rows = 0

  push(entry: E): void {
    entry.lane = this
    entry.previous = this.tail
    entry.next = null
    if (this.tail === null) this.head = entry
    else this.tail.next = entry
    this.tail = entry
    this.count++
    this.rows += entry.rows
  }

  unshift(entry: E): void {
    entry.lane = this
    entry.previous = null
    entry.next = this.head
    if (this.head === null) this.tail = entry
    else this.head.previous = entry
    this.head = entry
    this.count++
    this.rows += entry.rows
  }

  remove(entry: E): void {
    const { previous, next } = entry
    if (previous === null) this.head = next
    else previous.next = next
    if (next === null) this.tail = previous
    else next.previous = previous
    entry.lane = entry.previous = entry.next = null
    this.count--
    this.rows -= entry.rows
  }
}
