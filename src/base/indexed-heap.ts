/** An item of an {@link IndexedHeap}. It is in at most one heap. */
export interface HeapItem {
  /** Index of the item in its heap; the heap maintains it. */
  heapIndex: number
}

/** A binary min-heap whose items store their index, so that any item can be removed in O(log n). */
export class IndexedHeap<T extends HeapItem> {
  readonly #before: (a: T, b: T) => boolean
  readonly #items: T[] = []

  constructor(before: (a: T, b: T) => boolean) {
    this.#before = before
  }

  get size(): number {
    return this.#items.length
  }

  peek(): T | null {
    return this.#items.length === 0 ? null : this.#items[0]!
  }

  push(item: T): void {
    this.#items.push(item)
    this.#up(this.#items.length - 1, item)
  }

  remove(item: T): void {
    const last = this.#items.pop()!
    if (last === item) return
    this.#move(item.heapIndex, last)
  }

  /** Call this after the sort key of `item` has changed. */
  update(item: T): void {
    this.#move(item.heapIndex, item)
  }

  #move(index: number, item: T): void {
    if (index > 0 && this.#before(item, this.#items[(index - 1) >> 1]!)) this.#up(index, item)
    else this.#down(index, item)
  }

  #up(index: number, item: T): void {
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!this.#before(item, this.#items[parent]!)) break
      this.#put(index, this.#items[parent]!)
      index = parent
    }
    this.#put(index, item)
  }

  #down(index: number, item: T): void {
    const items = this.#items
    for (;;) {
      let child = 2 * index + 1
      if (child >= items.length) break
      if (child + 1 < items.length && this.#before(items[child + 1]!, items[child]!)) child++
      if (!this.#before(items[child]!, item)) break
      this.#put(index, items[child]!)
      index = child
    }
    this.#put(index, item)
  }

  #put(index: number, item: T): void {
    this.#items[index] = item
    item.heapIndex = index
  }
}
