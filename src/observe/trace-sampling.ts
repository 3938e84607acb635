import {
  withSettings,
  type GivenTraceSettings,
  type ResolvedTraceSettings,
} from '../options/trace-options.ts'

/** Which requests are traced by one set of settings: those of the engine, or of a model that has some of its own. */
export class TraceSampling {
  settings: ResolvedTraceSettings
  /** How many more are begun; -1 for no limit. */
  left: number
  #seen = 0

  constructor(settings: ResolvedTraceSettings) {
    this.settings = settings
    this.left = settings.count
  }

  /** Whether it may take any request from now on. */
  get isActive(): boolean {
    return this.settings.level.length > 0 && this.left !== 0
  }

  /** Whether this request is one of those that are traced. */
  takes(): boolean {
    if (!this.isActive || ++this.#seen % this.settings.rate !== 0) return false
    if (this.left > 0) this.left--
    return true
  }

  /** @param recounts whether `count` was given anew. */
  become(settings: ResolvedTraceSettings, recounts: boolean): void {
    this.settings = settings
    if (recounts) this.left = settings.count
  }
}

/** The samplings of an engine. A model without settings of its own is counted with all others that have none. */
export class TraceSamplings {
  readonly #first: ResolvedTraceSettings
  readonly #engine: TraceSampling
  /** Of models that have some of their own: what they were given, and what comes of it. */
  readonly #models = new Map<
    string,
    { readonly given: GivenTraceSettings; readonly sampling: TraceSampling }
  >()

  constructor(settings: ResolvedTraceSettings, models: ReadonlyMap<string, GivenTraceSettings>) {
    this.#first = settings
    this.#engine = new TraceSampling(settings)
    for (const [name, given] of models)
      this.#models.set(name, { given, sampling: new TraceSampling(withSettings(settings, given)) })
  }

  /** @param model `null` for the engine's. */
  of(model: string | null): TraceSampling {
    return (model === null ? undefined : this.#models.get(model)?.sampling) ?? this.#engine
  }

  has(model: string): boolean {
    return this.#models.has(model)
  }

  get all(): readonly TraceSampling[] {
    return [this.#engine, ...[...this.#models.values()].map(({ sampling }) => sampling)]
  }

  /** What all settings would be with these: the engine's, and those of models that have some of their own. */
  preview(given: GivenTraceSettings, model: string | null): ResolvedTraceSettings[] {
    const engine = model === null ? this.#ofEngine(given) : this.#engine.settings
    const models = new Map([...this.#models].map(([name, { given: own }]) => [name, own]))
    if (model !== null) models.set(model, this.#ofModel(model, given))
    return [engine, ...[...models.values()].map((own) => withSettings(engine, own))]
  }

  update(given: GivenTraceSettings, model: string | null): void {
    if (model === null) {
      this.#engine.become(this.#ofEngine(given), given.count !== undefined)
      for (const { given: own, sampling } of this.#models.values()) {
        sampling.become(
          withSettings(this.#engine.settings, own),
          given.count !== undefined && own.count === undefined,
        )
      }
      return
    }
    const own = this.#ofModel(model, given)
    if (Object.keys(own).length === 0) return void this.#models.delete(model)
    const settings = withSettings(this.#engine.settings, own)
    const known = this.#models.get(model)?.sampling
    known?.become(settings, given.count !== undefined)
    this.#models.set(model, { given: own, sampling: known ?? new TraceSampling(settings) })
  }

  #ofEngine(given: GivenTraceSettings): ResolvedTraceSettings {
    const asAtFirst = Object.fromEntries(
      Object.entries(given).map(([name, value]) => [
        name,
        value ?? this.#first[name as keyof ResolvedTraceSettings],
      ]),
    )
    return { ...this.#engine.settings, ...asAtFirst }
  }

  /** What a model has of its own; what is `null` it has as the engine. */
  #ofModel(model: string, given: GivenTraceSettings): GivenTraceSettings {
    const all = Object.entries({ ...this.#models.get(model)?.given, ...given })
    return Object.fromEntries(all.filter(([, value]) => value !== null))
  }
}
