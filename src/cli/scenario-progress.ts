import type { SingleBar } from 'cli-progress'
import type { SendSample } from '../perf/scenarios/scenario-run.ts'
import { progressBar } from './progress-bar.ts'

const intervalMs = 200

/** A line on a terminal of a run of a scenario that goes on, on standard error; none where that is no terminal. */
export class ScenarioProgress {
  readonly #bar: SingleBar | null
  #timer: NodeJS.Timeout | undefined
  #sent = 0

  constructor(stream: NodeJS.WriteStream = process.stderr) {
    this.#bar = progressBar('{what} [{bar}] {value} s of at least {total} s | {samples} samples | {rate} samples/sec', stream)
  }

  /** Counts the samples that are asked for. */
  counting(send: SendSample): SendSample {
    if (this.#bar === null) return send
    return (index) => {
      this.#sent++
      return send(index)
    }
  }

  /** A run begins. */
  begin(what: string, minDurationMs: number): void {
    const bar = this.#bar
    if (bar === null) return
    this.end()
    this.#sent = 0
    const startMs = performance.now()
    bar.start(Math.ceil(minDurationMs / 1000), 0, { what, samples: 0, rate: 0 })
    this.#timer = setInterval(() => {
      const seconds = (performance.now() - startMs) / 1000
      bar.update(Math.floor(seconds), { samples: this.#sent, rate: Math.round(this.#sent / seconds) })
    }, intervalMs).unref()
  }

  /** Takes the line away. */
  end(): void {
    clearInterval(this.#timer)
    this.#bar?.stop()
  }
}
