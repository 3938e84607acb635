import { resolve } from 'node:path'
import { ArrivalFile } from '../observe/arrivals/arrival-file.ts'
import { ArrivalRecording } from '../observe/arrivals/arrival-recording.ts'
import { systemClock } from '../base/clock.ts'
import { checkRecording } from '../options/recording-options.ts'
import { invalidArgument } from '../errors.ts'
import { engineClosed } from './model-registry.ts'
import type { Observers } from '../observe/observers.ts'

/** The recordings of an engine, which end with it. */
export class EngineRecordings {
  readonly #observers: Observers
  /** By their files; `null` while that is being opened. */
  readonly #running = new Map<string, ArrivalRecording | null>()
  #ended = false

  constructor(observers: Observers) {
    this.#observers = observers
  }

  async start(given: unknown, options: unknown): Promise<ArrivalRecording> {
    const { path, models } = checkRecording(given, options)
    const place = resolve(path)
    if (this.#running.has(place))
      throw invalidArgument('path', 'a file that no other recording is written to', path, {
        hint: 'Stop that one first',
      })
    this.#running.set(place, null)
    const ended = () => void this.#running.delete(place)
    try {
      const file = await ArrivalFile.create(path)
      if (!this.#ended) {
        const recording = new ArrivalRecording(file, models, this.#observers, systemClock, ended)
        this.#running.set(place, recording)
        return recording
      }
      await file.close()
    } catch (error) {
      ended()
      throw error
    }
    throw engineClosed()
  }

  async stop(): Promise<void> {
    this.#ended = true
    await Promise.all([...this.#running.values()].map((recording) => recording?.stop()))
  }
}
