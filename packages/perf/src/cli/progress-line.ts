import { SingleBar } from 'cli-progress'
import type { Recorder } from '../perf/load/recorder.ts'
import { levelNames, shownLevel } from '../perf/report/console-report.ts'
import type { LoadMode } from '../perf/result.ts'
import type { SendSample } from '../perf/scenarios/run-scenario.ts'
import type { TuneListener } from '../tune/tune-settings.ts'

const intervalMs = 200

/** What a line shows: how far it has come, where that is known, and the values of its format. */
interface ProgressLook extends Readonly<Record<string, string | number>> {
  readonly value: number
}

/** A line on a terminal that is drawn again and again; none where the stream is no terminal. */
export class ProgressLine {
  readonly #bar: SingleBar | null
  #timer: NodeJS.Timeout | undefined

  /** @param format as cli-progress has them; times and counts in it are what is looked up. */
  constructor(format: string, stream: NodeJS.WriteStream) {
    this.#bar = stream.isTTY
      ? new SingleBar({ format, stream, clearOnComplete: true, hideCursor: true, barsize: 20 })
      : null
  }

  get isShown(): boolean {
    return this.#bar !== null
  }

  /** Draws the line, in the place of the one before, and looks every now and then what it shows. */
  begin(total: number, look: () => ProgressLook): void {
    const bar = this.#bar
    if (bar === null) return
    this.end()
    // A second Ctrl-C ends the program at once, and the terminal would be left without its cursor.
    process.once('exit', this.end)
    const { value, ...first } = look()
    bar.start(total, value, first)
    this.#timer = setInterval(() => {
      const { value, ...shown } = look()
      bar.update(value, shown)
    }, intervalMs).unref()
  }

  /** Takes the line away. */
  readonly end = (): void => {
    process.off('exit', this.end)
    clearInterval(this.#timer)
    this.#bar?.stop()
  }
}

/** Where no line can be drawn again and again, one is written so often. */
const lineIntervalMs = 5000

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
    }, lineIntervalMs).unref()
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
