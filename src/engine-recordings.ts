import { resolve } from 'node:path'
import { ArrivalRecording, type RecordingOptions } from './arrivals/arrival-recording.ts'
import { systemClock } from './clock.ts'
import { isPlainObject } from './config/plain-options.ts'
import { InferenceError, invalidArgument } from './errors.ts'
import type { Observers } from './observability/observers.ts'

/** The recordings of an engine, which end with it. */
export class EngineRecordings {
  readonly #observers: Observers
  readonly #running = new Map<string, ArrivalRecording | null>()
  #stopped = false

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
    const file = resolve(path)
    if (this.#running.has(file)) throw invalidArgument('path', 'a file that no other recording is written to', path, { hint: 'Stop that one first' })
    this.#running.set(file, null)
    try {
      const recording = await ArrivalRecording.start(path, options, this.#observers, systemClock, () => this.#running.delete(file))
      this.#running.set(file, recording)
      if (!this.#stopped) return recording
      await recording.stop()
    } catch (error) {
      this.#running.delete(file)
      throw error
    }
    throw new InferenceError('ERR_CLOSED', 'The engine was closed before the recording began.')
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all([...this.#running.values()].map((recording) => recording?.stop()))
  }
}
