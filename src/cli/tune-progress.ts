import type { SingleBar } from 'cli-progress'
import type { TuneListener } from '../tune/tune-settings.ts'
import { progressBar } from './progress-bar.ts'

const redrawMs = 500

/** Shows on a terminal how much of the time is over and what is measured; nothing elsewhere. */
export class TuneProgress implements TuneListener {
  readonly #bar: SingleBar | null
  #timer: NodeJS.Timeout | null = null
  #measured = 0

  constructor(budgetSeconds: number, stream: NodeJS.WriteStream) {
    this.#bar = progressBar('[{bar}] {value}/{total} s | {phase} | {measured} measured, last {last}', stream)
    this.#bar?.start(Math.round(budgetSeconds), 0, { phase: 'starting', measured: 0, last: 'none' })
    if (this.#bar !== null) this.#timer = setInterval(() => this.#bar?.update(Math.floor(performance.now() / 1000)), redrawMs).unref()
  }

  onPhase(phase: string): void {
    this.#bar?.update({ phase })
  }

  onMeasured(last: string): void {
    this.#bar?.update({ measured: ++this.#measured, last })
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#bar?.stop()
  }
}
