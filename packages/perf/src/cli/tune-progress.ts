import type { TuneListener } from '../tune/tune-settings.ts'
import { ProgressLine } from './progress-line.ts'

/** Shows on a terminal how much of the time is over and what is measured; nothing elsewhere. */
export class TuneProgress implements TuneListener {
  readonly #line: ProgressLine
  #phase = 'starting'
  #measured = 0
  #last = 'none'

  constructor(budgetSeconds: number, stream: NodeJS.WriteStream) {
    this.#line = new ProgressLine(
      '[{bar}] {value}/{total} s | {phase} | {measured} measured, last {last}',
      stream,
    )
    this.#line.begin(Math.round(budgetSeconds), () => ({
      value: Math.floor(performance.now() / 1000),
      phase: this.#phase,
      measured: this.#measured,
      last: this.#last,
    }))
  }

  onPhase(phase: string): void {
    this.#phase = phase
  }

  onMeasured(last: string): void {
    this.#measured++
    this.#last = last
  }

  stop(): void {
    this.#line.end()
  }
}
