import { systemClock } from './clock.ts'
import type { ResolvedEngineOptions } from './config/engine-options.ts'
import type { EngineServices, LoadedModel } from './loaded-model.ts'
import { StagingPool } from './memory/staging-pool.ts'
import { Devices } from './workers/devices.ts'
import { KeepAlive } from './workers/keep-alive.ts'

/** How long a worker may take to leave ONNX Runtime after its work is done, in milliseconds. */
const workerExitLimitMs = 30_000

/**
 * What an engine has: models, threads, memory. Ports and threads hold on to it, so nothing here may hold on to the engine
 * itself or to a `Model`: that nobody has those any more is how an engine is known to be dropped.
 */
export class EngineResources {
  readonly models = new Map<string, LoadedModel>()
  readonly devices: Devices
  readonly services: EngineServices
  /** `null` until a model has been placed. */
  staging: StagingPool | null = null
  readonly #keepAlive = new KeepAlive()
  #nextId = 1
  #closing: Promise<void> | null = null

  constructor(options: ResolvedEngineOptions) {
    this.devices = new Devices(options, systemClock)
    this.services = {
      clock: systemClock,
      keepAlive: this.#keepAlive,
      staging: () => this.staging!,
      nextId: () => this.#nextId++,
      place: async (config) => {
        const places = await this.devices.place(config)
        this.staging ??= new StagingPool(options.staging, this.devices.acceptsSharedMemory)
        return places
      },
    }
  }

  /** Finishes what was accepted, or rejects what waits of it, and gives everything back. May be called more than once. */
  close(dropWaiting: boolean): Promise<void> {
    const models = [...this.models.values()].map((model) => model.close(dropWaiting))
    this.#closing ??= this.#keepAlive
      .during(
        Promise.all(models)
          .then(() => this.devices.close(workerExitLimitMs))
          .then(() => this.staging?.close()),
      )
      .finally(() => this.#keepAlive.close())
    return this.#closing
  }
}
