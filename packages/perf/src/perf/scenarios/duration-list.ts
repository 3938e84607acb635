/** Durations of a run, each of them: percentiles are exact, as LoadGen's are, at eight bytes a query. */
export class DurationList {
  #values = new Float64Array(1024)
  #length = 0

  get length(): number {
    return this.#length
  }

  push(duration: number): void {
    if (this.#length === this.#values.length) {
      const longer = new Float64Array(2 * this.#length)
      longer.set(this.#values)
      this.#values = longer
    }
    this.#values[this.#length++] = duration
  }

  /** A copy, in ascending order. */
  ascending(): Float64Array {
    return this.#values.slice(0, this.#length).sort()
  }
}

/** The duration below which a share of all lies, at LoadGen's index: the count times the share, rounded down. 0 for none. */
export function percentileOf(ascending: Float64Array, share: number): number {
  return ascending[Math.min(ascending.length - 1, Math.floor(ascending.length * share))] ?? 0
}
