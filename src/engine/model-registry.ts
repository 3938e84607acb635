import { InferenceError, invalidArgument, listNames } from '../errors.ts'
import type { EngineServices } from './engine-services.ts'
import type { LoadLimits, ModelVersion, ServableConfig } from './model-version.ts'
import { NamedModel, type NameOwner } from './named-model.ts'

/** The models of an engine by name, and what still goes on of those that have none any more. */
export class ModelRegistry implements NameOwner {
  readonly #services: EngineServices
  readonly #named = new Map<string, NamedModel>()
  /** Those that are being released, and have others under their names. */
  readonly #unnamed = new Set<NamedModel>()
  readonly #leaving = new Set<Promise<void>>()
  closed = false

  constructor(services: EngineServices) {
    this.#services = services
  }

  /** Those that have a name: loading, ready, draining, or failed after they were ready. */
  all(): NamedModel[] {
    return [...this.#named.values()]
  }

  get(name: string): NamedModel | undefined {
    return this.#named.get(name)
  }

  /**
   * @param asker a pipeline that looks for its steps, which cannot be one of them.
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` when no model has that name.
   */
  find(name: string, asker?: string): NamedModel {
    const named = this.#named.get(name)
    if (named !== undefined) return named
    throw invalidArgument(
      'name',
      `a loaded model (loaded: ${listNames([...this.#named.keys()].filter((known) => known !== asker))})`,
      name,
      { code: 'ERR_MODEL_NOT_FOUND' },
    )
  }

  /** @throws InferenceError `ERR_MODEL_NOT_FOUND` when no model has that name, or it has no such version. */
  findVersion(name: string, version: number, asker?: string): ModelVersion {
    const named = this.find(name, asker)
    const found = named.version(version)
    if (found !== undefined) return found
    const loaded = named.versions.map((status) => status.version).join(', ')
    throw invalidArgument('version', `a loaded version (loaded: ${loaded})`, version, {
      code: 'ERR_MODEL_NOT_FOUND',
      model: name,
    })
  }

  /**
   * Loads a version of a name, in place of the one that is loaded: see {@link ModelVersion.load}. What is being unloaded has
   * lost its name, and is waited for first.
   *
   * @throws what that throws; InferenceError `ERR_CLOSED` once {@link close} was called.
   */
  async load(
    name: string,
    config: ServableConfig,
    limits: LoadLimits,
  ): Promise<{ named: NamedModel; version: ModelVersion }> {
    if (this.closed) throw engineClosed()
    const present = this.#named.get(name)
    const isFree = present === undefined || present.ending !== null
    const named = isFree ? this.#succeed(name, present) : present
    return { named, version: await named.load(config, limits) }
  }

  /** @param ending what has that name, and is being released. */
  #succeed(name: string, ending: NamedModel | undefined): NamedModel {
    const named = new NamedModel(name, this, this.#services, ending?.ending ?? null)
    if (ending !== undefined) this.#unnamed.add(ending)
    this.#named.set(name, named)
    return named
  }

  /** Ends all models. May be called more than once. */
  async close(destroy: boolean): Promise<void> {
    this.closed = true
    const all = [...this.all(), ...this.#unnamed]
    if (!destroy) {
      for (const named of all) named.refuse()
      await this.#endInOrder(all)
    }
    await Promise.all([...all.map((named) => named.end(destroy)), ...this.#leaving])
  }

  /** Ends each once the pipelines have ended that have it as a step; until then it serves them. No pipeline is a step of itself. */
  async #endInOrder(all: readonly NamedModel[]): Promise<void> {
    const ends = new Map<NamedModel, Promise<unknown>>()
    const end = (named: NamedModel): Promise<unknown> => {
      const known = ends.get(named)
      if (known !== undefined) return known
      const pipelines = this.#services.uses.pipelinesOf(named.name)
      const users = all.filter(({ name }) => pipelines.includes(name))
      const ending =
        users.length === 0 ? named.end(false) : Promise.all(users.map(end)).then(() => named.end(false))
      ends.set(named, ending)
      return ending
    }
    await Promise.all(all.map(end))
  }

  gone(named: NamedModel): void {
    this.#unnamed.delete(named)
    if (this.#named.get(named.name) === named) this.#named.delete(named.name)
  }

  leaving(released: Promise<void>): void {
    const left = released.finally(() => this.#leaving.delete(left))
    this.#leaving.add(left)
  }
}

/** The error of what is asked of an engine that is closed. */
export function engineClosed(): InferenceError {
  return new InferenceError('ERR_CLOSED', 'The engine is closed. Make a new InferenceEngine.')
}
