import type { Clock } from '../../base/clock.ts'
import { cudaDevice, type Placement } from '../../options/session-options.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import type { OpenedSession } from '../../run/executors/executor.ts'
import { toleranceWith } from '../row-check/compare-rows.ts'
import { ModelInstance } from '../../run/model-instance.ts'
import { slotsFor, SlotsAhead } from '../../run/staging-slot.ts'
import type { WarmUp } from '../../run/warm-up.ts'
import type { StagingPool } from '../../native/staging-pool.ts'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import { type SessionState, WorkerSession } from '../../run/worker-session.ts'
import type { Worker } from '../../run/worker.ts'
import type { SessionSources } from './session-sources.ts'

/** Where an instance is. */
export interface Seat {
  readonly worker: Worker
  readonly placement: Placement
  /** The number of its group among the model's. */
  readonly group: number
}

/** What instances of a model are made with. */
export interface InstanceParts {
  readonly name: string
  readonly config: ResolvedConfig
  readonly clock: Clock
  nextId(): number
  staging(): StagingPool
  readonly sources: SessionSources
  /** A session on a worker has been closed. */
  released?(worker: Worker): Promise<void>
}

/** One instance of a model from its place to its end: it is opened, warmed, serves, and is taken out. */
export class InstanceLife {
  readonly seat: Seat
  readonly session: WorkerSession
  /** By how much the answers of its session may differ; see {@link toleranceWith}. */
  readonly tolerance: number
  /** Told when no thread can be had for it any more. */
  onGone: () => void = () => {}
  /** Among those of its model; -1 before it serves. */
  number = -1
  readonly #parts: InstanceParts
  #movesFromBytes = 0
  #ahead: SlotsAhead | null = null
  #warmUp: WarmUp | null = null
  #instance: ModelInstance | null = null

  /** @param state of the session of another instance, which this one's has to have; `null` for the first. */
  constructor(seat: Seat, parts: InstanceParts, state: SessionState | null) {
    const source = parts.sources.at(seat.placement)
    this.seat = seat
    this.#parts = parts
    this.tolerance = toleranceWith(source.options)
    this.session = new WorkerSession(parts.nextId(), seat.worker, source, parts.clock, state)
  }

  /** The model was prepared: its session is opened from what came of that. */
  prepared(): void {
    this.session.openFrom(this.#parts.sources.at(this.seat.placement))
  }

  /** Opens its session; see {@link WorkerSession.open}. */
  async open(readsGraph = false): Promise<OpenedSession> {
    const opened = await this.session.open(readsGraph)
    this.#movesFromBytes = opened.carrier.movesFromBytes
    return opened
  }

  /** Warms it, and has it warmed again on each new thread; see {@link WarmUp.run}. */
  warm(warmUp: WarmUp, check?: () => Promise<boolean>): Promise<void> {
    this.#warmUp = warmUp
    const { kind, gpu } = this.seat.placement
    return warmUp.run(this.session, `${kind} ${gpu}`, check)
  }

  /** Takes memory for its slots where that is not to be done at its first batch. */
  async reserve(metadata: ModelMetadata): Promise<void> {
    this.#ahead = await SlotsAhead.acquire(this.#parts.staging(), metadata, [this.seat], slotsFor(1))
  }

  /** Takes batches from now on, under this number. */
  serve(scheduler: Scheduler, number: number): void {
    this.number = number
    const { name, config, nextId, staging } = this.#parts
    const device = cudaDevice(this.seat.placement)
    const instance = new ModelInstance({
      scheduler,
      name: `${name}_${number}`,
      session: this.session,
      weight: config.weight,
      source: {
        nextSlotId: nextId,
        acquire: (byteLength) => staging().acquire(byteLength, device),
        acquireSpare: (byteLength) => staging().acquireSpare(byteLength, device),
        trim: () => staging().trim(),
        movesFromBytes: this.#movesFromBytes,
        device,
      },
      concurrency: config.function?.concurrency,
    })
    this.#instance = instance
    instance.adopt(this.#ahead?.byInstance[0] ?? [])
    this.#ahead = null
    scheduler.instances.add(instance)
    this.session.serve(instance, {
      reopened: async () => {
        instance.forgetLayouts()
        await this.warm(this.#warmUp!)
      },
      abandoned: (reason) => {
        scheduler.abandoned(instance, reason)
        instance.release()
        this.onGone()
      },
    })
  }

  /** Since when it has had nothing to do; `null` while it has, or does not serve. */
  get idleSinceMs(): number | null {
    return this.#instance?.idleSinceMs ?? null
  }

  /** For how long it has been busy so far, in milliseconds. */
  get busyMs(): number {
    return this.#instance?.busyMs ?? 0
  }

  /** Takes no more batches, hands back what it has not started, and is closed when the rest is done. */
  async leave(scheduler: Scheduler): Promise<void> {
    const instance = this.#instance!
    this.session.leave()
    scheduler.instances.retire(instance)
    if (instance.takeBackAhead()) scheduler.wake()
    await instance.drained()
    await this.close()
    scheduler.instances.remove(instance)
  }

  /** Gives its memory and its session back; no batch may be in flight. */
  async close(): Promise<void> {
    this.#ahead?.release()
    this.#ahead = null
    // Before the worker lets go, so that it is the worker's thread that frees the memory.
    this.#instance?.release()
    await this.session.close()
    await this.#parts.released?.(this.seat.worker)
  }
}
