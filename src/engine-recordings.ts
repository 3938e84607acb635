import { ArrivalFile } from './arrivals/arrival-file.ts'
import { ArrivalRecording } from './arrivals/arrival-recording.ts'
import { systemClock } from './clock.ts'
import { checkRecording } from './config/recording-options.ts'
import { engineClosed } from './model-registry.ts'
import type { Observers } from './observability/observers.ts'

/** The recordings of an engine, which end with it. */
export class EngineRecordings {
  readonly #observers: Observers
  readonly #running = new Set<ArrivalRecording>()
  #ended = false

  constructor(observers: Observers) {
    this.#observers = observers
  }

  async start(given: unknown, options: unknown): Promise<ArrivalRecording> {
    const { path, models } = checkRecording(given, options)
    const file = await ArrivalFile.create(path)
    if (this.#ended) {
      await file.close()
      throw engineClosed()
    }
    const recording = new ArrivalRecording(file, models, this.#observers, systemClock, () => this.#running.delete(recording))
    this.#running.add(recording)
    return recording
  }

  async stop(): Promise<void> {
    this.#ended = true
    await Promise.all([...this.#running].map((recording) => recording.stop()))
  }
}
