import type { ResolvedTraceSettings, TraceSettings } from '../options/trace-options.ts'
import { invalidArgument } from '../errors.ts'
import { engineClosed, type ModelRegistry } from './model-registry.ts'
import type { TraceStatistics } from '../observe/trace-account.ts'
import type { Traces } from '../observe/traces.ts'

/** The traces of an engine at run time: `engine.trace`. */
export class EngineTrace {
  readonly #traces: Traces
  readonly #models: ModelRegistry

  /** @internal */
  constructor(traces: Traces, models: ModelRegistry) {
    this.#traces = traces
    this.#models = models
  }

  /**
   * Changes settings, from the next request on. What is left out stays.
   *
   * @param model its name, for settings of its own instead of the engine's. Left out: those of the engine, for all models that have none.
   * @returns the settings that hold now.
   * @throws InferenceError `ERR_INVALID_ARG`, `ERR_MODEL_NOT_FOUND` (no model has that name, nor settings of its own) or `ERR_CLOSED`; nothing has changed then.
   */
  update(settings: TraceSettings, model?: string): ResolvedTraceSettings {
    if (this.#models.closed) throw engineClosed()
    this.#traces.update(settings, this.#known(model))
    return this.settings(model)
  }

  /**
   * The settings that hold for a model, or with no name for all that have none of their own; `count` is what is left of it.
   *
   * @throws InferenceError `ERR_INVALID_ARG` or `ERR_MODEL_NOT_FOUND`.
   */
  settings(model?: string): ResolvedTraceSettings {
    return this.#traces.settings(this.#known(model))
  }

  /** How many traces were begun, written and lost. */
  stats(): TraceStatistics {
    return this.#traces.statistics()
  }

  /** Resolves when what has been traced so far is in its file, or lost. {@link InferenceEngine.close} does so, too. */
  flush(): Promise<void> {
    return this.#traces.flush()
  }

  #known(model: string | undefined): string | null {
    if (model === undefined) return null
    if (typeof model !== 'string' || model === '')
      throw invalidArgument('model', 'the name of a model', model)
    if (!this.#traces.has(model)) this.#models.find(model)
    return model
  }
}
