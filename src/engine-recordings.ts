import { ArrivalRecording, type RecordingOptions } from './arrivals/arrival-recording.ts'
import { systemClock } from './clock.ts'
import { isPlainObject } from './config/plain-options.ts'
import { invalidArgument } from './errors.ts'
import type { Observers } from './observability/observers.ts'

/** The recordings of an engine, which end with it. */
export class EngineRecordings {
  readonly #observers: Observers
  readonly #running = new Set<ArrivalRecording>()

  constructor(observers: Observers) {
    this.#observers = observers
  }

  async start(path: string, options: RecordingOptions): Promise<ArrivalRecording> {
    if (typeof path !== 'string' || path === '') throw invalidArgument('path', 'the path of a file', path)
    if (!isPlainObject(options)) throw invalidArgument('options', 'an object', options)
    const { models } = options
    if (models !== undefined && !(Array.isArray(models) && models.every((name) => typeof name === 'string'))) {
      throw invalidArgument('options.models', 'names of models', models)
    }
    const recording = await ArrivalRecording.start(path, options, this.#observers, systemClock)
    this.#running.add(recording)
    return recording
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#running].map((recording) => recording.stop()))
  }
}
