/** Something that knows its place among others; -1 for none. */
interface Placed {
  place: number
}

/** Requests in no order, of which any can be taken out at once: each knows its place. */
export class PlacesOfRuns<Run extends Placed> {
  readonly #runs: Run[] = []

  get size(): number {
    return this.#runs.length
  }

  get all(): readonly Run[] {
    return this.#runs
  }

  add(run: Run): void {
    run.place = this.#runs.push(run) - 1
  }

  remove(run: Run): void {
    const last = this.#runs.pop()!
    if (last !== run) {
      this.#runs[run.place] = last
      last.place = run.place
    }
    run.place = -1
  }
}
