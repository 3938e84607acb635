import { noLeases, type LeaseStatistics } from '../../observe/model-statistics.ts'
import type { Leases } from './leases.ts'

/** The leases of a loaded model from the first on, and those of models that it has replaced, which end with it. */
export class ModelLeases {
  readonly #make: () => Leases
  #own: Leases | null = null
  #earlier: Leases[] = []

  /** @param make throws for a model of which no rows can be leased. */
  constructor(make: () => Leases) {
    this.#make = make
  }

  /** @throws InferenceError `ERR_INVALID_ARG` for a model of which no rows can be leased. */
  lend(): Leases {
    return (this.#own ??= this.#make())
  }

  /** The same; `null` for such a model. */
  lendIfAny(): Leases | null {
    try {
      return this.lend()
    } catch {
      return null
    }
  }

  get stats(): LeaseStatistics {
    return this.#own?.stats ?? noLeases
  }

  /** The model takes no more requests: what callers hold of it goes on with a successor, and ends without one. */
  end(successor?: ModelLeases): void {
    if (successor === undefined) this.#endAll()
    else successor.#succeed(this)
  }

  /** Gives memory back, as soon as nobody holds it. */
  close(): void {
    this.#own?.close()
  }

  #succeed(replaced: ModelLeases): void {
    const own = replaced.#own === null ? [] : [replaced.#own]
    this.#earlier = [...this.#earlier, ...replaced.#earlier, ...own].filter((leases) => leases.anyHeld)
    replaced.#earlier = []
  }

  #endAll(): void {
    for (const leases of this.#earlier.splice(0)) leases.endAll()
    this.#own?.endAll()
  }
}
