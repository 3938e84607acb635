/** Where a sequence is among those that are under way. */
export interface Place {
  /** Which batch it belongs to, and where in that: -1 for none in particular. */
  readonly group: number
  readonly slot: number
}

const anywhere: Place = { group: -1, slot: -1 }

/** How many sequences are under way at once. */
export interface Places {
  /** A place for a sequence; `null` while there is none. */
  give(): Place | null
  free(place: Place): void
  /** Rows of a batch with this place: up to the last that is taken. */
  slots(place: Place): number
}

/** So many candidates, whose requests join as they come; Triton's `oldest`. */
export class Candidates implements Places {
  readonly #most: () => number
  #taken = 0

  constructor(most: () => number) {
    this.#most = most
  }

  give(): Place | null {
    if (this.#taken >= this.#most()) return null
    this.#taken++
    return anywhere
  }

  free(): void {
    this.#taken--
  }

  slots(): number {
    return 0
  }
}

/** For each instance a batch whose slots belong to sequences; Triton's `direct`. The lowest slot goes first, whichever batch it is of. */
export class BatchSlots implements Places {
  readonly #slotsOfBatch: number
  readonly #batches: () => number
  readonly #taken: boolean[][] = []

  constructor(slotsOfBatch: number, batches: () => number) {
    this.#slotsOfBatch = slotsOfBatch
    this.#batches = batches
  }

  give(): Place | null {
    const batches = Math.max(1, this.#batches())
    for (let slot = 0; slot < this.#slotsOfBatch; slot++) {
      for (let group = 0; group < batches; group++) {
        const taken = (this.#taken[group] ??= [])
        if (taken[slot] === true) continue
        taken[slot] = true
        return { group, slot }
      }
    }
    return null
  }

  free({ group, slot }: Place): void {
    const taken = this.#taken[group]!
    taken[slot] = false
    while (taken.length > 0 && taken.at(-1) !== true) taken.pop()
  }

  slots({ group }: Place): number {
    return this.#taken[group]!.length
  }
}
