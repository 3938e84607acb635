import { InferenceError, invalidArgument, listNames, describe } from '../errors.ts'
import type { EngineResources } from './engine-resources.ts'
import { defaultVersion } from '../options/method-options.ts'
import { IgnoredOptions } from '../request/ignored-options.ts'
import { Loaded, type LoadFor, type ModelState, type ModelVersionStatus } from './loaded.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import type { ResolvedPipeline } from '../options/pipeline-config.ts'
import { closedWhileLoading } from './load-failure.ts'
import type { ModelEvent } from '../observe/engine-events.ts'
import { untilAborted } from '../base/abort-watch.ts'

/** The models of an engine by name, and models without a name that are still being released. */
export class ModelRegistry {
  readonly #engine: EngineResources
  readonly #named = new Map<string, NamedModel>()
  /** Models that are being released, whose names others have taken. */
  readonly #unnamed = new Set<NamedModel>()
  readonly #leaving = new Set<Promise<void>>()
  closed = false

  constructor(engine: EngineResources) {
    this.#engine = engine
  }

  /** Models with a name: loading, ready, draining, or failed after they were ready. */
  all(): NamedModel[] {
    return [...this.#named.values()]
  }

  get(name: string): NamedModel | undefined {
    return this.#named.get(name)
  }

  /**
   * @param asker a pipeline that looks up its steps; it cannot be one of them.
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

  /**
   * A name or, if one is given, a version of it.
   *
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` when there is none.
   */
  findTarget(name: string, version: number | undefined, asker?: string): NamedModel | ModelVersion {
    const named = this.find(name, asker)
    if (version === undefined) return named
    const found = named.version(version)
    if (found !== undefined) return found
    const loaded = named.versions.map((status) => status.version).join(', ')
    throw invalidArgument('version', `a loaded version (loaded: ${loaded})`, version, {
      code: 'ERR_MODEL_NOT_FOUND',
      model: name,
    })
  }

  /**
   * Loads a version of a name and replaces the loaded one: see {@link ModelVersion.load}. A model of that name that is
   * being unloaded has lost its name, and is released first.
   *
   * @throws the errors of that; InferenceError `ERR_CLOSED` once {@link close} was called.
   */
  async load(name: string, config: ServableConfig, limits: LoadLimits): Promise<LoadedVersion> {
    if (this.closed) throw engineClosed()
    let named = this.#named.get(name)
    if (named === undefined || named.ending !== null) {
      if (named !== undefined) this.#unnamed.add(named)
      named = new NamedModel(name, this.#engine, named?.ending ?? null)
      this.#named.set(name, named)
    }
    return { named, version: await named.load(config, limits) }
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

  /**
   * Ends each model once the pipelines that use it as a step have ended; until then it serves them. No pipeline is a
   * step of itself.
   */
  async #endInOrder(all: readonly NamedModel[]): Promise<void> {
    const ends = new Map<NamedModel, Promise<unknown>>()
    const end = (named: NamedModel): Promise<unknown> => {
      const known = ends.get(named)
      if (known !== undefined) return known
      const pipelines = this.#engine.uses.pipelinesOf(named.name)
      const users = all.filter(({ name }) => pipelines.includes(name))
      const ending =
        users.length === 0 ? named.end(false) : Promise.all(users.map(end)).then(() => named.end(false))
      ends.set(named, ending)
      return ending
    }
    await Promise.all(all.map(end))
  }

  /** Called when no version of a name is left. */
  gone(named: NamedModel): void {
    this.#unnamed.delete(named)
    if (this.#named.get(named.name) === named) this.#named.delete(named.name)
  }

  /** Tracks a release that no caller awaits; {@link close} does. */
  leaving(released: Promise<void>): void {
    const left = released.finally(() => this.#leaving.delete(left))
    this.#leaving.add(left)
  }
}

/** What a load resolves with. */
export interface LoadedVersion {
  readonly named: NamedModel
  readonly version: ModelVersion
}

/** The error for a call on a closed engine. */
export function engineClosed(): InferenceError {
  return new InferenceError('ERR_CLOSED', 'The engine is closed. Make a new InferenceEngine.')
}

/** The versions of one name. Requests without a version go to the newest that is ready. */
export class NamedModel {
  readonly name: string
  /** The newest ready version; if none is ready, the newest; if none is left, the last one. */
  serving!: Loaded
  /** Resolves when the whole name is released; `null` if it is not being released. */
  ending: Promise<unknown> | null = null
  readonly #engine: EngineResources
  readonly #versions = new Map<number, ModelVersion>()
  /** Versions that are being released, whose numbers others have taken. */
  readonly #leaving = new Set<ModelVersion>()
  /** Releases that must finish first: earlier models of this name. */
  #after: Promise<unknown> | null

  /** @param after the releases to wait for before anything is loaded; `null` for none. */
  constructor(name: string, engine: EngineResources, after: Promise<unknown> | null) {
    this.name = name
    this.#after = after
    void after?.then(() => (this.#after = null))
    this.#engine = engine
  }

  get versions(): ModelVersionStatus[] {
    return this.all()
      .map(({ status }) => status)
      .reverse()
  }

  /** Its versions, the newest first. */
  all(): ModelVersion[] {
    return [...this.#versions.values()].sort((a, b) => b.version - a.version)
  }

  version(version: number): ModelVersion | undefined {
    return this.#versions.get(version)
  }

  /** See {@link ModelVersion.load}; resolves with the version. */
  async load(config: ServableConfig, limits: LoadLimits): Promise<ModelVersion> {
    const number = config.version ?? defaultVersion
    let version = this.#versions.get(number)
    if (version === undefined || version.ending !== null) {
      if (version !== undefined) this.#leaving.add(version)
      version = new ModelVersion(number, this, this.#engine, version?.ending ?? this.#after)
      this.#versions.set(number, version)
    }
    await version.load(config, limits)
    return version
  }

  /** Resolves when no load of it is in progress, whether or not the loads succeeded. */
  loaded(): Promise<unknown> {
    return Promise.all(this.all().map((version) => version.loaded()))
  }

  /** Accepts no more requests of callers; pipelines with it as a step continue. */
  refuse(): void {
    for (const { serving } of this.all()) serving.refuse()
  }

  /** Ends all its versions; see {@link ModelVersion.end}. */
  end(destroy: boolean): Promise<unknown> {
    const ends = [...this.all(), ...this.#leaving].map((version) => version.end(destroy))
    ends.push(this.serving.close(destroy))
    return (this.ending ??= Promise.all(ends))
  }

  /** Called when the model that serves a version, or its state, has changed. */
  changed(): void {
    const all = this.all()
    const isIn = (state: ModelState) => all.find(({ serving }) => serving.state === state)
    // While the engine closes, draining models still serve pipelines until those end.
    const newest = isIn('ready') ?? (this.#engine.models.closed ? isIn('draining') : undefined) ?? all[0]
    if (newest !== undefined) this.serving = newest.serving
  }

  /** Called when nothing is loaded as this version any more. */
  gone(version: ModelVersion): void {
    this.#leaving.delete(version)
    if (this.#engine.models.closed && !version.isVacant) return
    if (this.#versions.get(version.version) === version) this.#versions.delete(version.version)
    this.changed()
    if (this.#versions.size === 0 && this.#leaving.size === 0) this.#engine.models.gone(this)
  }
}

/** Conditions on a load. */
export interface LoadLimits {
  readonly signal?: AbortSignal | undefined
  /** Called when the load is able to serve. If it rejects, the load fails. */
  accept?(): Promise<void>
}

/** The configurations that can be loaded under a name. */
export type ServableConfig = ResolvedConfig | ResolvedPipeline

/**
 * One version of a name. A load replaces the current model while it serves: the new model loads next to the old one and
 * takes new requests once it is ready, and the old one finishes the requests it accepted. Loads run one after the
 * other, so at most two models are in memory.
 */
export class ModelVersion {
  readonly version: number
  /** The model that its requests go to. */
  serving!: Loaded
  /** Whether no load holds this version: {@link serving} never served, or is released. */
  isVacant = true
  /** Resolves when the whole version is released; `null` if it is not being released. */
  ending: Promise<void> | null = null
  readonly #named: NamedModel
  readonly #engine: EngineResources
  /** The release to wait for before anything is loaded. */
  readonly #after: Promise<unknown> | null
  /** The model that is loading to replace it. */
  #next: Loaded | null = null
  /** Replaced models that finish the requests they accepted. */
  readonly #replaced = new Set<Loaded>()
  #loads = 0 // in progress or waiting
  #lastLoad: Promise<unknown> = Promise.resolve()
  /** What its loads have warned of; made with the first. */
  #ignored: IgnoredOptions | null = null

  /** @param after the releases to wait for before anything is loaded; `null` for none. */
  constructor(version: number, named: NamedModel, engine: EngineResources, after: Promise<unknown> | null) {
    this.version = version
    this.#after = after
    this.#named = named
    this.#engine = engine
  }

  get name(): string {
    return this.#named.name
  }

  get versions(): ModelVersionStatus[] {
    return this.#named.versions
  }

  get status(): ModelVersionStatus {
    const { state, failure, version } = this.serving
    return { version, state, failure, replacing: this.#next !== null }
  }

  /**
   * Loads a model as this version, after the loads requested before. If it fails, the current model keeps serving.
   *
   * @throws the error of the load; the signal's reason; InferenceError `ERR_CLOSED` when the version is unloaded
   * meanwhile.
   */
  load(config: ServableConfig, limits: LoadLimits): Promise<void> {
    const loading =
      this.#loads++ === 0 ? this.#load(config, limits) : this.#loadAfter(this.#lastLoad, config, limits)
    const done = loading.finally(() => {
      this.#loads--
      this.#leaveIfEmpty()
    })
    this.#lastLoad = Promise.allSettled([this.#lastLoad, done]).then(() => {})
    return done
  }

  /** Resolves when no load of this version is in progress, whether or not the loads succeeded. */
  loaded(): Promise<unknown> {
    return this.#lastLoad
  }

  /**
   * Accepts no more requests and loads, finishes accepted requests (or rejects them and stops runs), and releases
   * everything. May be called more than once.
   */
  end(destroy: boolean): Promise<void> {
    const held = [this.serving, ...this.#replaced, ...(this.#next === null ? [] : [this.#next])]
    const released = Promise.all(held.map((model) => model.close(destroy)))
    return (this.ending ??= released.then(() => this.#named.gone(this)))
  }

  async #loadAfter(before: Promise<unknown>, config: ServableConfig, limits: LoadLimits): Promise<void> {
    await untilAborted(before, limits.signal)
    this.#checkNotEnded()
    await this.#load(config, limits)
  }

  async #load(config: ServableConfig, { signal, accept }: LoadLimits): Promise<void> {
    const room = this.#makeRoom(signal)
    if (room !== null) await room // without a wait the load starts, and is visible, at once
    const old = this.isVacant ? null : this.serving
    const load: LoadFor = {
      changed: (event) => this.#changed(model, event),
      accept,
      leaving: old?.workers,
      ignored: (this.#ignored ??= new IgnoredOptions(this.name)),
    }
    const model: Loaded = new Loaded(this.name, config, this.#engine, load)
    if (old === null) this.serving = model
    else this.#next = model
    this.#named.changed()
    const loading = this.#begin(model)
    try {
      await untilAborted(loading, signal)
      if (old !== null && model.state !== 'ready') throw closedWhileLoading(this.name) // ended at the same moment
    } catch (error) {
      if (signal?.aborted && error === signal.reason) this.#abandon(model, loading, error)
      if (this.#next === model) this.#next = null
      throw error
    }
    this.isVacant = false
    if (old !== null) this.#replace(old, model)
  }

  async #begin(model: Loaded): Promise<void> {
    const startMs = this.#engine.clock.nowMs()
    if (this.#after !== null) await this.#after
    if (model.state !== 'loading') throw closedWhileLoading(this.name)
    await model.load()
    if (model.served !== null) model.served.counts.loadMs = this.#engine.clock.nowMs() - startMs
  }

  /** Releases earlier replaced models, and a failed one, before the load. */
  #makeRoom(signal: AbortSignal | undefined): Promise<void> | null {
    const failed = !this.isVacant && this.serving.state === 'failed'
    const inTheWay = failed ? [this.serving, ...this.#replaced] : [...this.#replaced]
    return inTheWay.length === 0 ? null : this.#release(inTheWay, signal)
  }

  async #release(inTheWay: readonly Loaded[], signal: AbortSignal | undefined): Promise<void> {
    const { serving } = this
    const released = Promise.all(inTheWay.map((model) => model.close(false))).then(() => {
      if (inTheWay.includes(serving) && serving === this.serving) this.isVacant = true
      this.#leaveIfEmpty() // the load may have been aborted
    })
    await untilAborted(released, signal)
    this.#checkNotEnded()
  }

  #leaveIfEmpty(): void {
    if (this.#loads === 0 && this.isVacant && this.ending === null) this.#named.gone(this)
  }

  #replace(old: Loaded, model: Loaded): void {
    this.serving = model
    this.#next = null
    this.#replaced.add(old)
    this.#named.changed()
    this.#engine.events.emit('model', { type: 'ready', model: this.name, version: this.version })
    void old.close(false, model).then(() => {
      this.#replaced.delete(old)
      this.#engine.host.trim()
    })
  }

  #changed(model: Loaded, event: ModelEvent): void {
    const { type } = event
    if (model === this.serving) {
      this.#named.changed()
      this.#engine.events.emit('model', event)
    } else if (model === this.#next && type === 'failed')
      this.#engine.events.emit('model', { ...event, type: 'notReplaced' })
    else if (this.#replaced.has(model) && type === 'closed')
      this.#engine.events.emit('model', { ...event, type: 'replaced' })
  }

  /**
   * Ends a load as soon as its current call returns, without a caller that waits for it, and releases what it has
   * opened.
   */
  #abandon(model: Loaded, loading: Promise<void>, reason: unknown): void {
    model.fail(`its load was aborted: ${reason instanceof Error ? reason.message : describe(reason)}`)
    const released = loading
      .then(() => model.close(true)) // it became ready at the same moment
      .catch(() => {}) // its failure is expected
    this.#engine.models.leaving(released)
  }

  #checkNotEnded(): void {
    if (this.ending !== null) throw closedWhileLoading(this.name)
  }
}

/** One step's use of a model. `version` is `undefined` for the newest that is ready. */
interface Use {
  readonly pipeline: string
  readonly model: string
  readonly version: number | undefined
}

/** Which pipelines use which models as steps. A model in use may be replaced but not unloaded. */
export class ModelUses {
  /** By holder: a replaced pipeline and its successor both hold their models for a while. */
  readonly #uses = new Map<object, readonly Use[]>()
  readonly #onRelease: (() => void)[] = []

  /** Records the models of a pipeline, until {@link release}. */
  hold(
    holder: object,
    pipeline: string,
    steps: readonly { readonly model: string; readonly version: number | undefined }[],
  ): void {
    this.#uses.set(
      holder,
      steps.map(({ model, version }) => ({ pipeline, model, version })),
    )
  }

  release(holder: object): void {
    if (this.#uses.delete(holder)) for (const look of this.#onRelease.splice(0)) look()
  }

  /** The path of names by which a pipeline contains itself, back to its own name; `null` if it does not. */
  circle(pipeline: string): string[] | null {
    const all = this.#all()
    const seen = new Set<string>()
    const visit = (name: string, path: readonly string[]): string[] | null => {
      if (path.length > 0 && name === pipeline) return [...path, name]
      if (seen.has(name)) return null
      seen.add(name)
      for (const use of all) {
        const found = use.pipeline === name ? visit(use.model, [...path, name]) : null
        if (found !== null) return found
      }
      return null
    }
    return visit(pipeline, [])
  }

  /** Names of the pipelines with a model as a step. */
  pipelinesOf(model: string): string[] {
    return [...new Set(this.#all().flatMap((use) => (use.model === model ? [use.pipeline] : [])))]
  }

  /** Why a name, or one version of it, cannot be unloaded; `null` if it can. */
  refusal(target: NamedModel | ModelVersion): InferenceError | null {
    const { name: model, versions } = target
    const version = target instanceof ModelVersion ? target.version : undefined
    const isLast = !versions.some((other) => other.version !== version && other.state === 'ready')
    const touched = this.#all().filter(
      (use) =>
        use.model === model &&
        (version === undefined || use.version === version || (use.version === undefined && isLast)),
    )
    if (touched.length === 0) return null
    const pipelines = [...new Set(touched.map(({ pipeline }) => pipeline))]
    const what = version === undefined ? `Model '${model}'` : `Version ${version} of model '${model}'`
    const hint = 'Unload the pipeline first, or replace the model by loading another'
    const message = `${what} cannot be unloaded: it is a step of ${pipelines.length === 1 ? 'pipeline' : 'the pipelines'} ${listNames(pipelines)}. ${hint}.`
    return new InferenceError('ERR_MODEL_IN_USE', message, {
      model,
      expected: 'a model that is no step of a pipeline',
      received: pipelines,
    })
  }

  /** Resolves when a version can be unloaded. */
  async whenFree(version: ModelVersion): Promise<void> {
    while (this.refusal(version) !== null) await new Promise<void>((resolve) => this.#onRelease.push(resolve))
  }

  #all(): Use[] {
    return [...this.#uses.values()].flat()
  }
}
