import { describe, listNames } from './describe.ts'
import { invalidArgument, type InferenceError } from './errors.ts'
import type { LoadedModel } from './loaded-model.ts'
import { untilAborted } from './request/abort-watch.ts'

/** The models of an engine by name, and what still goes on of those that have none any more. */
export class ModelRegistry {
  readonly #named = new Map<string, LoadedModel>()
  readonly #leaving = new Set<Promise<void>>()

  /** Those that have a name: loading, ready, draining, or failed after they were ready. */
  all(): LoadedModel[] {
    return [...this.#named.values()]
  }

  get(name: string): LoadedModel | undefined {
    return this.#named.get(name)
  }

  /** The error of a name that no model has. */
  notFound(name: unknown): InferenceError {
    return invalidArgument('name', `a loaded model (loaded: ${listNames([...this.#named.keys()])})`, name, { code: 'ERR_MODEL_NOT_FOUND' })
  }

  /**
   * Loads a model under its name, which is free again when that fails.
   *
   * @throws InferenceError `ERR_MODEL_CONFIG` when another has the name; what the load rejects with, or the signal's reason.
   */
  async load(model: LoadedModel, signal: AbortSignal | undefined): Promise<void> {
    const { name } = model
    const present = this.#named.get(name)
    if (present !== undefined && present.state !== 'closed') {
      throw invalidArgument('name', 'a name that no loaded model has', name, {
        code: 'ERR_MODEL_CONFIG',
        model: name,
        hint: 'Unload that model first, or load this one under another name',
      })
    }
    this.#named.set(name, model)
    const loading = model.load()
    try {
      await untilAborted(loading, signal)
    } catch (error) {
      this.#forget(model)
      if (signal?.aborted && error === signal.reason) this.#abandon(model, loading, signal.reason)
      throw error
    }
  }

  /** Finishes what a model has accepted and releases it; its name is free then. */
  async unload(model: LoadedModel): Promise<void> {
    await model.close(false)
    this.#forget(model)
  }

  /** Ends all models. */
  async close(destroy: boolean): Promise<void> {
    await Promise.all([...this.all().map((model) => model.close(destroy)), ...this.#leaving])
  }

  #forget(model: LoadedModel): void {
    if (this.#named.get(model.name) === model) this.#named.delete(model.name)
  }

  /** Has a load end as soon as what runs of it is done, which nobody waits for, and releases what it has opened. */
  #abandon(model: LoadedModel, loading: Promise<void>, reason: unknown): void {
    model.abortLoad(`its load was aborted: ${reason instanceof Error ? reason.message : describe(reason)}`)
    const leaving = loading
      .then(() => model.close(true)) // it was ready in the same moment
      .catch(() => {}) // that it failed was to be expected
      .finally(() => this.#leaving.delete(leaving))
    this.#leaving.add(leaving)
  }
}
