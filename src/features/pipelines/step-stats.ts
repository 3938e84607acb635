import { durationOf, type StepStatistics } from '../../observe/model-statistics.ts'
import type { GraphStep } from './pipeline-graph.ts'

/** Counts what became of one step of a pipeline. */
export class StepStats {
  readonly #step: GraphStep
  #successes = 0
  #successMs = 0
  #failures = 0
  #failMs = 0
  #cancelled = 0
  #skipped = 0
  #fanned = 0
  #rows = 0

  constructor(step: GraphStep) {
    this.#step = step
  }

  succeeded(ms: number): void {
    this.#successes++
    this.#successMs += ms
  }

  failed(ms: number): void {
    this.#failures++
    this.#failMs += ms
  }

  /** It had begun when its request ended otherwise. */
  cancelled(): void {
    this.#cancelled++
  }

  /** A request fans out to so many rows. */
  fannedOut(rows: number): void {
    this.#fanned++
    this.#rows += rows
  }

  /** Requests of its model for one that comes to the step: 1, or as many as its rows were on average. */
  get rowsPerRequest(): number {
    return this.#fanned === 0 ? 1 : this.#rows / this.#fanned
  }

  skipped(): void {
    this.#skipped++
  }

  snapshot(): StepStatistics {
    const { name, model } = this.#step
    return {
      step: name,
      model,
      success: durationOf(this.#successes, this.#successMs),
      fail: durationOf(this.#failures, this.#failMs),
      cancelledCount: this.#cancelled,
      skippedCount: this.#skipped,
      rowCount: this.#rows,
    }
  }
}
