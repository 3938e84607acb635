import type { SampleRun } from '../../run/executors/executor.ts'
import type { TrialFeeds } from '../../run/trial-feeds.ts'

/** How long trials hold up a load, in milliseconds; what is left goes on beside serving. */
const budgetMs = 40
/** After so many milliseconds of trials as many are left to others, so that they take half of a worker's time at most. */
const sliceMs = 5

/** Runs trials one after the other: without a break while a model is loaded, until that has taken long enough, then between other work. */
export class PacedRuns {
  /** Resolves when the load is not to wait any longer. */
  readonly paused: Promise<void>
  readonly #startMs = performance.now()
  readonly #resumed: Promise<void>
  #pause!: () => void
  #resume!: () => void
  #isServing = false
  #sliceMs = 0

  constructor() {
    this.paused = new Promise((resolve) => (this.#pause = resolve))
    this.#resumed = new Promise((resolve) => (this.#resume = resolve))
  }

  /** The model serves: trials go on, or begin, between other work. */
  serve(): void {
    this.#isServing = true
    this.#resume()
  }

  /** Runs a trial when it is its turn. */
  async run(feeds: TrialFeeds, trial: (feeds: TrialFeeds) => Promise<SampleRun>): Promise<SampleRun> {
    if (!this.#isServing && performance.now() - this.#startMs > budgetMs) {
      this.#pause()
      await this.#resumed
    }
    if (this.#sliceMs >= sliceMs) await this.#breathe()
    const startMs = performance.now()
    const result = await trial(feeds)
    if (this.#isServing) this.#sliceMs += performance.now() - startMs
    return result
  }

  #breathe(): Promise<void> {
    const pauseMs = this.#sliceMs
    this.#sliceMs = 0
    return new Promise((resolve) => setTimeout(resolve, pauseMs).unref())
  }
}
