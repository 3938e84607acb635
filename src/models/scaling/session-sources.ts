import type { PreparedModel, SessionNotes } from '../compiled-models/prepared-model.ts'
import type { ModelOrigin } from '../../options/engine-options.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { sessionOptions, type Placement, type SessionRuntime } from '../../options/session-options.ts'
import { holdsLater } from '../../run/warm-up.ts'
import type { SessionSource } from '../../run/worker-session.ts'

/** What prepares models. */
export interface Preparing {
  /** Finds out what the sessions of a model are opened from, once it is placed; rejects with the reason of `signal` when that fires. */
  prepare(model: string, config: ResolvedConfig, signal: AbortSignal): Promise<PreparedModel>
  /** What opens the sessions of a model. */
  sessionRuntime(model: string): SessionRuntime
}

/** What the sessions of a model are opened from, whenever that is: the model as it is, or, once it was prepared, its compiled form. */
export class SessionSources {
  readonly #model: string
  readonly #config: ResolvedConfig
  readonly #services: Preparing
  #prepared: PreparedModel | null = null

  constructor(model: string, config: ResolvedConfig, services: Preparing) {
    this.#model = model
    this.#config = config
    this.#services = services
  }

  /** `null` before it was prepared. */
  get origin(): ModelOrigin | null {
    return this.#prepared?.origin ?? null
  }

  /** Prepares the model for the execution providers that there are, again where there are others than before. */
  async prepare(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    this.#prepared = await this.#services.prepare(this.#model, this.#config, signal)
  }

  /** What a session there is opened from. */
  at(placement: Placement): SessionSource {
    const { path, bytes, memory, maxRunMs, function: fn } = this.#config
    if (fn !== null) return { model: path, options: { function: fn }, memory, maxRunMs }
    const model = bytes ?? path
    const options = sessionOptions(this.#config, placement, this.#services.sessionRuntime(this.#model))
    return { memory, maxRunMs, ...(this.#prepared?.opening(model, options) ?? { model, options }) }
  }

  /** Takes note of what was found out of the model, for later processes, too. */
  learnt(notes: SessionNotes): void {
    this.#prepared!.learnt(Object.fromEntries(Object.entries(notes).filter(([about]) => holdsLater(about))))
  }
}
