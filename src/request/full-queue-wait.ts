/** How long to wait when a full queue does not say it. */
const retryMs = 5

interface Waiting {
  readonly index: number
  readonly go: () => void
}

/**
 * Where the items of one stream wait while the queue is full: all for one timer, however many they are, and then in their
 * order as many as there is room for.
 */
export class FullQueueWait {
  readonly #room: () => number
  readonly #waiting: Waiting[] = [] // by index
  #timer: NodeJS.Timeout | null = null
  #left = false

  /** @param room tells how many requests would be accepted now. */
  constructor(room: () => number) {
    this.#room = room
  }

  /** Resolves when an item may be tried for the first time; `null` for at once, as no others wait before it. */
  turn(index: number): Promise<void> | null {
    return this.#waiting.length === 0 ? null : this.#wait(index)
  }

  /** An item was refused: resolves when it may be tried again. */
  async refused(index: number, retryAfterMs = retryMs): Promise<void> {
    if (this.#left) return
    // A timer that holds the process: whoever waits for the stream waits for the queue.
    this.#timer ??= setTimeout(() => this.#retry(retryAfterMs), retryAfterMs)
    await this.#wait(index)
  }

  /** Lets all go: the stream is left, and nothing more of it is to be tried. */
  leave(): void {
    this.#left = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    for (const { go } of this.#waiting.splice(0)) go()
  }

  #wait(index: number): Promise<void> {
    const after = this.#waiting.findIndex((other) => other.index > index)
    return new Promise((go) =>
      this.#waiting.splice(after === -1 ? this.#waiting.length : after, 0, { index, go }),
    )
  }

  #retry(afterMs: number): void {
    const going = this.#waiting.splice(0, this.#room())
    this.#timer = this.#waiting.length === 0 ? null : setTimeout(() => this.#retry(afterMs), afterMs)
    for (const { go } of going) go()
  }
}
