import type { Recorder } from '../perf/load/recorder.ts'
import { levelNames, shownLevel } from '../perf/report/level-names.ts'
import type { LoadMode } from '../perf/result.ts'
import { ProgressLine } from './progress-line.ts'

/** A line of a level that goes on, on standard error. */
export class PerfProgress {
  readonly #line: ProgressLine
  #show: () => void = () => {}
  #window = 1

  constructor(stream: NodeJS.WriteStream = process.stderr) {
    this.#line = new ProgressLine('{level} [{bar}] window {value} of at most {total} | {requests} requests | {throughput} infer/sec | {latency} usec', stream)
  }

  /** A level begins. */
  begin(mode: LoadMode, level: number, maxTrials: number, recorder: Recorder): void {
    const shown = `${levelNames(mode).summary} ${shownLevel(level)}`
    this.#window = 1
    this.#show = () =>
      this.#line.begin(maxTrials, () => {
        const { startMs, inferenceCount, latency } = recorder.current
        const seconds = (recorder.clock.nowMs() - startMs) / 1000
        return { value: Math.min(this.#window, maxTrials), level: shown, requests: recorder.ended, throughput: seconds > 0 ? Math.round(inferenceCount / seconds) : 0, latency: Math.round(latency.averageUs) }
      })
    this.#show()
  }

  /** A window has ended; the next begins. */
  window(trial: number): void {
    this.#window = trial + 1
  }

  /** Takes the line away while something is told. */
  without(tell: () => void): void {
    this.#line.end()
    tell()
    this.#show()
  }

  /** Takes the line away. */
  end(): void {
    this.#show = () => {}
    this.#line.end()
  }
}
