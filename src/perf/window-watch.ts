import type { ModelStatistics } from '../index.ts'
import { EventLoopDelay } from './event-loop-delay.ts'
import type { Recorder } from './load/recorder.ts'
import type { MeasuredWindow } from './measured-window.ts'

/** Cuts time into windows, each of which begins where the one before ends. */
export class WindowWatch {
  readonly #recorder: Recorder
  readonly #stats: () => ModelStatistics
  readonly #sequencesBegun: () => number | undefined
  readonly #delay: EventLoopDelay
  #before: ModelStatistics
  #sequences: number | undefined
  #cpu = process.cpuUsage()

  /** @param sequencesBegun how many sequences were, since whenever; `undefined` where there are none. */
  constructor(recorder: Recorder, stats: () => ModelStatistics, sequencesBegun: () => number | undefined) {
    this.#recorder = recorder
    this.#sequencesBegun = sequencesBegun
    this.#sequences = sequencesBegun()
    this.#stats = stats
    this.#delay = new EventLoopDelay(recorder.clock)
    this.#before = stats()
    this.#delay.start()
  }

  /** Ends a window and begins the next. */
  cut(): MeasuredWindow {
    const load = this.#recorder.cut()
    const before = this.#before
    const after = (this.#before = this.#stats())
    const spent = process.cpuUsage(this.#cpu)
    this.#cpu = process.cpuUsage()
    const begunBefore = this.#sequences
    this.#sequences = this.#sequencesBegun()
    const sequences = this.#sequences === undefined ? null : this.#sequences - (begunBefore ?? 0)
    return { load, before, after, sequences, eventLoopDelay: this.#delay.take(), cpuSeconds: (spent.user + spent.system) / 1e6 }
  }

  stop(): void {
    this.#delay.stop()
  }
}
