import type { Recorder } from '../perf/load/recorder.ts'
import { levelNames, shownLevel } from '../perf/report/console-report.ts'
import type { LoadMode } from '../perf/result.ts'
import { ProgressLine } from './progress-line.ts'

/** Where no line can be drawn again and again, one is written so often. */
const intervalMs = 5000

/** A line of a level that goes on, on standard error: drawn again and again on a terminal, elsewhere written every five seconds. */
export class PerfProgress {
  readonly #line: ProgressLine
  readonly #stream: NodeJS.WriteStream
  readonly #isQuiet: boolean
  #show: () => void = () => {}
  #window = 1
  #timer: NodeJS.Timeout | undefined

  /** @param isQuiet whether nothing is written but on a terminal: a program reads what there is. */
  constructor(isQuiet = false, stream: NodeJS.WriteStream = process.stderr) {
    this.#isQuiet = isQuiet
    this.#stream = stream
    this.#line = new ProgressLine(
      '{level} [{bar}] window {value} of at most {total} | {requests} requests | {throughput} infer/sec | {latency} usec',
      stream,
    )
  }

  /** A level begins. */
  begin(mode: LoadMode, level: number, maxTrials: number, recorder: Recorder): void {
    const shown = `${levelNames(mode).summary} ${shownLevel(level)}`
    this.#window = 1
    const look = () => {
      const { startMs, inferenceCount, latency } = recorder.current
      const seconds = (recorder.clock.nowMs() - startMs) / 1000
      return {
        value: Math.min(this.#window, maxTrials),
        level: shown,
        requests: recorder.ended,
        throughput: seconds > 0 ? Math.round(inferenceCount / seconds) : 0,
        latency: Math.round(latency.averageUs),
      }
    }
    this.#show = () => this.#line.begin(maxTrials, look)
    this.#show()
    if (this.#line.isShown || this.#isQuiet) return
    clearInterval(this.#timer)
    this.#timer = setInterval(() => {
      const { value, level, requests, throughput, latency } = look()
      this.#stream.write(
        `${level}: window ${value} of at most ${maxTrials}, ${requests} requests, ${throughput} infer/sec, ${latency} usec\n`,
      )
    }, intervalMs).unref()
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
    clearInterval(this.#timer)
    this.#line.end()
  }
}
