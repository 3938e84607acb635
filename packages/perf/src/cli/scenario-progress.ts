import type { SendSample } from '../perf/scenarios/run-scenario.ts'
import { ProgressLine } from './progress-line.ts'

/** A line of a run of a scenario that goes on, on standard error. */
export class ScenarioProgress {
  readonly #line: ProgressLine
  #sent = 0

  constructor(stream: NodeJS.WriteStream = process.stderr) {
    this.#line = new ProgressLine(
      '{what} [{bar}] {value} s of at least {total} s | {samples} samples | {rate} samples/sec',
      stream,
    )
  }

  /** Counts the samples that are asked for. */
  counting(send: SendSample): SendSample {
    if (!this.#line.isShown) return send
    return (index) => {
      this.#sent++
      return send(index)
    }
  }

  /** A run begins. */
  begin(what: string, minDurationMs: number): void {
    this.#sent = 0
    const startMs = performance.now()
    this.#line.begin(Math.ceil(minDurationMs / 1000), () => {
      const seconds = (performance.now() - startMs) / 1000
      return {
        value: Math.floor(seconds),
        what,
        samples: this.#sent,
        rate: seconds > 0 ? Math.round(this.#sent / seconds) : 0,
      }
    })
  }

  /** Takes the line away. */
  end(): void {
    this.#line.end()
  }
}
