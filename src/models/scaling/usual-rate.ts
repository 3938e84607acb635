import { median } from '../../base/median.ts'

/** Rows a second, to the usual, from which on the load is another one ... */
const otherBelow = 0.7
const otherAbove = 1.4
/** ... when so many measurements in a row say so; the usual is that of the first so many. */
const agreeing = 3

/** What a busy model gives while its load is the same. */
export class UsualRate {
  #first: number[] = []
  #otherCount = 0

  /** Takes in a measurement; whether the load has become another one. */
  isOther(rowsPerSecond: number): boolean {
    if (this.#first.length < agreeing) {
      this.#first.push(rowsPerSecond)
      return false
    }
    const change = rowsPerSecond / median(this.#first)
    this.#otherCount = change < otherBelow || change > otherAbove ? this.#otherCount + 1 : 0
    return this.#otherCount >= agreeing
  }

  /** What follows does not follow from what was before. */
  interrupt(): void {
    this.#otherCount = 0
  }

  forget(): void {
    this.#first = []
    this.#otherCount = 0
  }
}
