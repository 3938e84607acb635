import type { ModelStatistics } from 'zerohop'
import { LateTimers } from './late-timers.ts'
import type { Recorder } from './load/recorder.ts'
import type { MeasuredWindow } from './measured-window.ts'
import type { PerfTarget } from './perf-target.ts'

/** Cuts time into windows, each of which begins where the one before ends. */
export class WindowWatch {
  readonly #recorder: Recorder
  readonly #target: PerfTarget
  readonly #delay: LateTimers
  /** Of the model, and of those that it is made up of. */
  #before: readonly ModelStatistics[]
  #sequencesBefore: number
  #cpu = process.cpuUsage()

  constructor(recorder: Recorder, target: PerfTarget) {
    this.#recorder = recorder
    this.#target = target
    this.#delay = new LateTimers(recorder.clock)
    this.#before = this.#statistics()
    this.#sequencesBefore = target.source.sequenceCount ?? 0
    this.#delay.start()
  }

  /** Ends a window and begins the next. */
  cut(): MeasuredWindow {
    const load = this.#recorder.cut()
    const after = this.#statistics()
    const [server, ...composing] = this.#before.map((before, index) => ({ before, after: after[index]! }))
    this.#before = after
    const spent = process.cpuUsage(this.#cpu)
    this.#cpu = process.cpuUsage()
    return {
      load,
      server: server!,
      composing,
      sequences: this.#sequences(),
      eventLoopDelay: this.#delay.take(),
      cpuSeconds: (spent.user + spent.system) / 1e6,
    }
  }

  stop(): void {
    this.#delay.stop()
  }

  #statistics(): ModelStatistics[] {
    const { model, composingModels = [] } = this.#target
    return [model, ...composingModels].map((each) => each.stats())
  }

  #sequences(): number | null {
    const { sequenceCount } = this.#target.source
    if (sequenceCount === undefined) return null
    const begun = sequenceCount - this.#sequencesBefore
    this.#sequencesBefore = sequenceCount
    return begun
  }
}
