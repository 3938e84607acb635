import type { ResolvedConfig } from '../options/resolve-model-config.ts'
import { isPipeline, type ResolvedPipeline } from '../options/resolve-pipeline-config.ts'
import { describe } from '../errors.ts'
import type { EngineServices } from './engine-services.ts'
import { closedWhileLoading } from './load-failure.ts'
import { LoadedModel } from './loaded-model.ts'
import { LoadedPipeline } from './loaded-pipeline.ts'
import type { Loadable, ModelTarget } from './model-target.ts'
import type { ModelVersionStatus } from './model-state.ts'
import type { ModelEvent } from '../observe/engine-events.ts'
import { noteLoad } from './serving-statistics.ts'
import { untilAborted } from '../request/abort-watch.ts'

/** What may keep a load from being served. */
export interface LoadLimits {
  readonly signal?: AbortSignal | undefined
  /** Asked when it could serve; it does not when this rejects. */
  accept?(): Promise<void>
}

/** What may be loaded under a name. */
export type ServableConfig = ResolvedConfig | ResolvedPipeline

/** What a version needs of its name. */
export interface VersionOwner {
  readonly name: string
  readonly versions: ModelVersionStatus[]
  /** What serves a version, or its state, is another. */
  changed(): void
  /** Nothing is loaded as this version any more. */
  gone(version: ModelVersion): void
  /** Something is released that nobody waits for. */
  leaving(released: Promise<void>): void
}

/**
 * One version of a name. Loaded again, it is replaced while it serves: the new model is loaded beside the old one and takes
 * the requests from when it is ready on, and the old one answers what it had accepted. One load after the other, so that two
 * models are held at most.
 */
export class ModelVersion implements ModelTarget {
  readonly version: number
  /** Where its requests go. */
  serving!: Loadable
  readonly #owner: VersionOwner
  readonly #services: EngineServices
  /** What has to be released before anything is loaded. */
  readonly #after: Promise<unknown> | null
  /** What is to take the place of that, and is being loaded. */
  #next: Loadable | null = null
  /** What had the place, and answers what it had accepted. */
  readonly #replaced = new Set<Loadable>()
  /** Whether {@link serving} never served, or is released. */
  #vacant = true
  #loads = 0 // under way, or waiting for their turn
  #lastLoad: Promise<unknown> = Promise.resolve()
  #end: Promise<void> | null = null

  /** @param after what has to be released before anything is loaded; `null` for nothing. */
  constructor(
    version: number,
    owner: VersionOwner,
    services: EngineServices,
    after: Promise<unknown> | null,
  ) {
    this.version = version
    this.#after = after
    this.#owner = owner
    this.#services = services
  }

  get name(): string {
    return this.#owner.name
  }

  get versions(): ModelVersionStatus[] {
    return this.#owner.versions
  }

  get status(): ModelVersionStatus {
    const { state, failure, version } = this.serving
    return { version, state, failure, replacing: this.#next !== null }
  }

  /** Whether nothing that was loaded as this version holds it. */
  get isVacant(): boolean {
    return this.#vacant
  }

  /** Resolves when all of it is released; `null` unless that is under way. */
  get ending(): Promise<void> | null {
    return this.#end
  }

  /**
   * Loads a model as this version, behind the loads that were asked for before. When it fails, what serves stays.
   *
   * @throws what the load rejects with; the signal's reason; InferenceError `ERR_CLOSED` when the version is unloaded meanwhile.
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

  /** Resolves when nothing is being loaded as this version, whatever has come of it. */
  loaded(): Promise<unknown> {
    return this.#lastLoad
  }

  /**
   * Takes no more requests and loads nothing any more, finishes what was accepted (or rejects it and stops what runs), and
   * releases everything. May be called more than once.
   */
  end(destroy: boolean): Promise<void> {
    const held = [this.serving, ...this.#replaced, ...(this.#next === null ? [] : [this.#next])]
    const released = Promise.all(held.map((model) => model.close(destroy)))
    return (this.#end ??= released.then(() => this.#owner.gone(this)))
  }

  async #loadAfter(before: Promise<unknown>, config: ServableConfig, limits: LoadLimits): Promise<void> {
    await untilAborted(before, limits.signal)
    this.#checkNotEnded()
    await this.#load(config, limits)
  }

  async #load(config: ServableConfig, { signal, accept }: LoadLimits): Promise<void> {
    const room = this.#makeRoom(signal)
    if (room !== null) await room // else it is begun at once, and can be seen
    const old = this.#vacant ? null : this.serving
    const services = this.#servicesFor(() => model, old, accept)
    const model: Loadable = isPipeline(config)
      ? new LoadedPipeline(this.name, config, services)
      : new LoadedModel(this.name, config, services)
    if (old === null) this.serving = model
    else this.#next = model
    this.#owner.changed()
    const loading = this.#begin(model)
    try {
      await untilAborted(loading, signal)
      if (old !== null && model.state !== 'ready') throw closedWhileLoading(this.name) // ended in the same moment
    } catch (error) {
      if (signal?.aborted && error === signal.reason) this.#abandon(model, loading, error)
      if (this.#next === model) this.#next = null
      throw error
    }
    this.#vacant = false
    if (old !== null) this.#replace(old, model)
  }

  async #begin(model: Loadable): Promise<void> {
    const startMs = this.#services.clock.nowMs()
    if (this.#after !== null) await this.#after
    if (model.state !== 'loading') throw closedWhileLoading(this.name)
    await model.load()
    noteLoad(model, this.#services.clock.nowMs() - startMs)
  }

  /** What was replaced before is released first, and so is what has failed. */
  #makeRoom(signal: AbortSignal | undefined): Promise<void> | null {
    const failed = !this.#vacant && this.serving.state === 'failed'
    const inTheWay = failed ? [this.serving, ...this.#replaced] : [...this.#replaced]
    return inTheWay.length === 0 ? null : this.#release(inTheWay, signal)
  }

  async #release(inTheWay: readonly Loadable[], signal: AbortSignal | undefined): Promise<void> {
    const { serving } = this
    const released = Promise.all(inTheWay.map((model) => model.close(false))).then(() => {
      if (inTheWay.includes(serving) && serving === this.serving) this.#vacant = true
      this.#leaveIfEmpty() // the load may have been aborted
    })
    await untilAborted(released, signal)
    this.#checkNotEnded()
  }

  #leaveIfEmpty(): void {
    if (this.#loads === 0 && this.#vacant && this.#end === null) this.#owner.gone(this)
  }

  #replace(old: Loadable, model: Loadable): void {
    this.serving = model
    this.#next = null
    this.#replaced.add(old)
    this.#owner.changed()
    this.#services.changed({ type: 'ready', model: this.name, version: this.version })
    void old.close(false, model).then(() => {
      this.#replaced.delete(old)
      this.#services.trim()
    })
  }

  /** The engine's services, with what concerns the place that a model takes. */
  #servicesFor(model: () => Loadable, old: Loadable | null, accept: LoadLimits['accept']): EngineServices {
    const leaving = old?.workers ?? []
    return {
      ...this.#services,
      changed: (event) => this.#changed(model(), event),
      place: (name, config, place) => this.#services.place(name, config, place, leaving),
      ...(accept === undefined ? {} : { accept }),
    }
  }

  #changed(model: Loadable, event: ModelEvent): void {
    const { type } = event
    if (model === this.serving) {
      this.#owner.changed()
      this.#services.changed(event)
    } else if (model === this.#next && type === 'failed')
      this.#services.changed({ ...event, type: 'notReplaced' })
    else if (this.#replaced.has(model) && type === 'closed')
      this.#services.changed({ ...event, type: 'replaced' })
  }

  /** Has a load end as soon as what runs of it is done, which nobody waits for, and releases what it has opened. */
  #abandon(model: Loadable, loading: Promise<void>, reason: unknown): void {
    model.abortLoad(`its load was aborted: ${reason instanceof Error ? reason.message : describe(reason)}`)
    const released = loading
      .then(() => model.close(true)) // it was ready in the same moment
      .catch(() => {}) // that it failed was to be expected
    this.#owner.leaving(released)
  }

  #checkNotEnded(): void {
    if (this.#end !== null) throw closedWhileLoading(this.name)
  }
}
