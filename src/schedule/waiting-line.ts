import type { LineOf, WaitingRequest } from '../request/infer-request.ts'

const fewestPlaces = 8
/** A ring of so many places is kept although few or none of them are taken. */
const placesKept = 512
const holesAllowed = 64

/**
 * The requests of a bucket that are served in the order in which they came: one priority level, delayed or not. A ring
 * and not a linked list, because closing a batch then reads its requests side by side, where in a list each has to come
 * from far memory before the next one is known.
 */
export class WaitingLine<E extends WaitingRequest, Owner> implements LineOf<Owner> {
  readonly owner: Owner
  level = 0
  delayed = false
  /** Requests in it. */
  count = 0
  // Positions count on and wrap around as 32-bit integers; a position is in the ring at its lowest bits.
  #ring: (E | null)[] = ringOf(fewestPlaces)
  #first = 0
  #end = 0

  constructor(owner: Owner) {
    this.owner = owner
  }

  /** The request to be served first; there is one. */
  get head(): E {
    return this.#ring[this.#first & (this.#ring.length - 1)]!
  }

  /** Puts a request behind all others. */
  push(entry: E): void {
    if (this.#span === this.#ring.length) this.#resize()
    this.#put(entry, this.#end)
    this.#end = (this.#end + 1) | 0
  }

  /** Puts a request before all others. */
  unshift(entry: E): void {
    if (this.#span === this.#ring.length) this.#resize()
    this.#first = (this.#first - 1) | 0
    this.#put(entry, this.#first)
  }

  /** Puts a request before all that came later. */
  insert(entry: E): void {
    this.push(entry)
    const ring = this.#ring
    const mask = ring.length - 1
    let at = entry.position
    for (; at !== this.#first; at = (at - 1) | 0) {
      const before = ring[(at - 1) & mask]!
      if (before !== null && before.came < entry.came) break
      ring[at & mask] = before
      if (before !== null) before.position = at
    }
    ring[at & mask] = entry
    entry.position = at
  }

  remove(entry: E): void {
    this.#ring[entry.position & (this.#ring.length - 1)] = null
    entry.line = null
    this.count--
    this.#trim()
  }

  /** Takes out those of `entries` from `index` on that are in it; returns the index after them. */
  removeThose(entries: readonly E[], index: number): number {
    const ring = this.#ring
    const mask = ring.length - 1
    const start = index
    for (; index < entries.length && entries[index]!.line === this; index++) {
      const entry = entries[index]!
      ring[entry.position & mask] = null
      entry.line = null
    }
    this.count -= index - start
    this.#trim()
    return index
  }

  /** Adds its first requests to `entries`, up to and with the one by which `rows` exceeds `maxRows`; returns the rows there are then. */
  collect(entries: E[], rows: number, maxRows: number): number {
    const ring = this.#ring
    const mask = ring.length - 1
    for (
      let position = this.#first;
      position !== this.#end && rows <= maxRows;
      position = (position + 1) | 0
    ) {
      const entry = ring[position & mask]!
      if (entry === null) continue // withdrawn
      entries.push(entry)
      rows += entry.rows
    }
    return rows
  }

  /** Of its first requests those that came less than so many after the oldest of them, the oldest first: what was put back may lie before older ones. */
  within(window: number): E[] {
    const ring = this.#ring
    const entries: E[] = []
    for (
      let position = this.#first;
      position !== this.#end && entries.length < window;
      position = (position + 1) | 0
    ) {
      const entry = ring[position & (ring.length - 1)]!
      if (entry !== null) entries.push(entry) // else withdrawn
    }
    entries.sort((a, b) => a.cost!.order - b.cost!.order)
    const before = entries[0]!.cost!.order + window
    while (entries.at(-1)!.cost!.order >= before) entries.pop()
    return entries
  }

  /** Places that it takes up in the ring, with those of requests that were withdrawn. */
  get #span(): number {
    return (this.#end - this.#first) | 0
  }

  #put(entry: E, position: number): void {
    this.#ring[position & (this.#ring.length - 1)] = entry
    entry.line = this
    entry.position = position
    this.count++
  }

  /** Lets go of places that are not needed any more. */
  #trim(): void {
    const ring = this.#ring
    const mask = ring.length - 1
    while (this.#first !== this.#end && ring[this.#first & mask] === null) this.#first = (this.#first + 1) | 0
    if (this.#span > 2 * this.count + holesAllowed || ring.length > Math.max(16 * this.count, placesKept))
      this.#resize()
  }

  /** Moves its requests together, into a ring of two to four times as many places. */
  #resize(): void {
    const ring = this.#ring
    const [first, end] = [this.#first, this.#end]
    let places = fewestPlaces
    while (places < 2 * this.count) places *= 2
    this.#ring = ringOf(places)
    this.#first = this.#end = this.count = 0
    for (let position = first; position !== end; position = (position + 1) | 0) {
      const entry = ring[position & (ring.length - 1)]!
      if (entry !== null) this.push(entry)
    }
  }
}

function ringOf(places: number): null[] {
  return Array.from({ length: places }, () => null)
}
