import { SingleBar } from 'cli-progress'
import type { Recorder } from '../perf/load/recorder.ts'
import { levelNames, shownLevel } from '../perf/report/console-report.ts'
import type { LoadMode } from '../perf/result-schema.ts'
import type { SendSample } from '../perf/scenarios/run-scenario.ts'
import type { TuneListener } from '../tune/tune-settings.ts'

const intervalMs = 200

/** The content of a line: progress, if known, and the values of its format. */
interface ProgressLook extends Readonly<Record<string, string | number>> {
  readonly value: number
}

/** A line on a terminal that is redrawn in place. Not used if the stream is no terminal. */
export class ProgressLine {
  readonly #bar: SingleBar | null
  #timer: NodeJS.Timeout | undefined

  /** @param format for cli-progress; its times and counts come from the values that `look` returns. */
  constructor(format: string, stream: NodeJS.WriteStream) {
    this.#bar = stream.isTTY
      ? new SingleBar({ format, stream, clearOnComplete: true, hideCursor: true, barsize: 20 })
      : null
  }

  get isShown(): boolean {
    return this.#bar !== null
  }

  /** Draws the line in place of the one before, and updates it at intervals. */
  begin(total: number, look: () => ProgressLook): void {
    const bar = this.#bar
    if (bar === null) return
    this.end()
    // A second Ctrl-C ends the program at once, and would leave the terminal without a cursor.
    process.once('exit', this.end)
    const { value, ...first } = look()
    bar.start(total, value, first)
    this.#timer = setInterval(() => {
      const { value, ...shown } = look()
      bar.update(value, shown)
    }, intervalMs).unref()
  }

  /** Removes the line. */
  readonly end = (): void => {
    process.off('exit', this.end)
    clearInterval(this.#timer)
    this.#bar?.stop()
  }
}

/** Interval of lines if the stream cannot be redrawn. */
const lineIntervalMs = 5000

/**
 * The progress of a level, on standard error: redrawn on a terminal, otherwise written every five seconds.
 */
export class PerfProgress {
  readonly #line: ProgressLine
  readonly #stream: NodeJS.WriteStream
  readonly #isQuiet: boolean
  #show: () => void = () => {}
  #window = 1
  #timer: NodeJS.Timeout | undefined

  /** @param isQuiet whether to write only on a terminal, because a program reads the output. */
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
    }, lineIntervalMs).unref()
  }

  /** A window has ended; the next begins. */
  window(trial: number): void {
    this.#window = trial + 1
  }

  /** Removes the line while something is printed. */
  without(tell: () => void): void {
    this.#line.end()
    tell()
    this.#show()
  }

  /** Removes the line. */
  end(): void {
    this.#show = () => {}
    clearInterval(this.#timer)
    this.#line.end()
  }
}

/** The progress of a scenario's run, on standard error. */
export class ScenarioProgress {
  readonly #line: ProgressLine
  #sent = 0

  constructor(stream: NodeJS.WriteStream = process.stderr) {
    this.#line = new ProgressLine(
      '{what} [{bar}] {value} s of at least {total} s | {samples} samples | {rate} samples/sec',
      stream,
    )
  }

  /** Counts the samples sent. */
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

  /** Removes the line. */
  end(): void {
    this.#line.end()
  }
}

/** Shows on a terminal the elapsed share of the time, and the current trial; otherwise nothing. */
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
