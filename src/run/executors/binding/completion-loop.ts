import { outsideContext } from '../../../base/async-context.ts'
import type { Bell } from './control-block.ts'

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

  /** Reports what is done, until nothing is outstanding or there is nothing but to wait for the bell. */
  #scan(): void {
    this.#busy = true
    const failures: unknown[] = []
    for (;;) {
      // Read the count first: a batch finished between here and the wait makes the wait return at once.
      const count = this.#bell.count
      for (const source of this.#sources) {
        try {
          source.drain()
        } catch (error) {
          failures.push(error) // the others must not go unheard for it
        }
        if (source.outstanding === 0) this.#sources.delete(source)
      }
      if (this.#sources.size === 0) {
        this.#busy = false
        break
      }
      if (this.#waits(count)) break
    }
    if (failures.length > 0) throw failures[0]
  }

  /** Whether it waits for the bell, in the context of none of those whose batches it waits for. */
  #waits(count: number): boolean {
    return outsideContext(() => {
      const heard = this.#bell.heard(count)
      void heard?.then(this.#onRing)
      return heard !== undefined
    })
  }

  readonly #onRing = (): void => this.#scan()
}
