import type { Bell } from './bell.ts'

/** Who may have finished batches to report. */
export interface CompletionSource {
  readonly outstanding: number
  drain(): void
}

/** Listens to the bell while anything is outstanding; with nothing outstanding it holds neither timer nor waiter. */
export class CompletionLoop {
  readonly #bell: Bell
  /** Those with something outstanding. */
  readonly #sources = new Set<CompletionSource>()
  #busy = false // scanning now, or waiting for the bell

  constructor(bell: Bell) {
    this.#bell = bell
  }

  /** To be called whenever a batch was handed over. */
  listen(source: CompletionSource): void {
    this.#sources.add(source)
    if (!this.#busy) this.#scan()
  }

  #scan(): void {
    this.#busy = true
    let waits = false
    try {
      waits = this.#look()
    } finally {
      this.#busy = waits // an exception of one source must not leave the others unheard for ever
    }
  }

  /** Reports what is done until nothing is outstanding, or there is nothing but to wait; true when the bell will call. */
  #look(): boolean {
    for (;;) {
      // Read the count first: a batch finished between here and the wait makes the wait return at once.
      const count = this.#bell.count
      for (const source of this.#sources) {
        source.drain()
        if (source.outstanding === 0) this.#sources.delete(source)
      }
      if (this.#sources.size === 0) return false
      const heard = this.#bell.heard(count)
      if (heard === undefined) continue
      void heard.then(this.#onRing)
      return true
    }
  }

  readonly #onRing = (): void => this.#scan()
}
