import type { ModelStatistics } from '../index.ts'
import { EventLoopDelay } from './event-loop-delay.ts'
import type { Recorder } from './load/recorder.ts'
import type { MeasuredWindow } from './measured-window.ts'

/** Cuts time into windows, each of which begins where the one before ends. */
export class WindowWatch {
  readonly #recorder: Recorder
  readonly #stats: () => ModelStatistics
  readonly #delay: EventLoopDelay
  #before: ModelStatistics
  #cpu = process.cpuUsage()

  constructor(recorder: Recorder, stats: () => ModelStatistics) {
    this.#recorder = recorder
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
    return { load, before, after, eventLoopDelay: this.#delay.take(), cpuSeconds: (spent.user + spent.system) / 1e6 }
  }

  stop(): void {
    this.#delay.stop()
  }
}
