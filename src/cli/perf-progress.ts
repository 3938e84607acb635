import type { SingleBar } from 'cli-progress'
import type { Recorder } from '../perf/load/recorder.ts'
import { levelNames, shownLevel } from '../perf/report/level-names.ts'
import type { LoadMode } from '../perf/result.ts'
import { progressBar } from './progress-bar.ts'

const intervalMs = 200

/** A line on a terminal of what goes on, on standard error; none where that is no terminal. */
export class PerfProgress {
  readonly #bar: SingleBar | null
  #timer: NodeJS.Timeout | undefined
  #maxTrials = 1

  constructor(stream: NodeJS.WriteStream = process.stderr) {
    this.#bar = progressBar('{level} [{bar}] window {value} of at most {total} | {requests} requests | {throughput} infer/sec | {latency} usec', stream)
  }

  /** A level begins. */
  begin(mode: LoadMode, level: number, maxTrials: number, recorder: Recorder): void {
    const bar = this.#bar
    if (bar === null) return
    this.#maxTrials = maxTrials
    const shown = `${levelNames(mode).summary} ${shownLevel(level)}`
    bar.start(maxTrials, 1, { level: shown, requests: 0, throughput: 0, latency: 0 })
    this.#timer = setInterval(() => {
      const { startMs, inferenceCount, latency } = recorder.current
      const seconds = (recorder.clock.nowMs() - startMs) / 1000
      bar.update({ requests: recorder.ended, throughput: Math.round(inferenceCount / seconds), latency: Math.round(latency.averageUs) })
    }, intervalMs).unref()
  }

  /** A window has ended; the next begins. */
  window(trial: number): void {
    this.#bar?.update(Math.min(trial + 1, this.#maxTrials))
  }

  /** Takes the line away. */
  end(): void {
    clearInterval(this.#timer)
    this.#bar?.stop()
  }
}
