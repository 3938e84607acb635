/** Gives the dims of a tensor another form, for the same elements: each variable one goes to the next variable one. */
export class Reshape {
  /** -1 for a variable dimension, the batch dimension included. */
  readonly #from: readonly number[]
  readonly #to: readonly number[]

  constructor(from: readonly number[], to: readonly number[]) {
    this.#from = from
    this.#to = to
  }

  /** Whether dims are of the form that is taken. */
  takes(dims: readonly number[]): boolean {
    return (
      dims.length === this.#from.length &&
      this.#from.every((expected, axis) => expected === -1 || expected === dims[axis])
    )
  }

  /** Of dims that are {@link takes taken}. */
  of(dims: readonly number[]): number[] {
    const lengths = dims.filter((_, axis) => this.#from[axis] === -1)
    let next = 0
    return this.#to.map((dim) => (dim === -1 ? lengths[next++]! : dim))
  }

  /** For an error. */
  get taken(): string {
    return `[${this.#from.map((dim) => (dim === -1 ? '?' : dim)).join(', ')}]`
  }
}
