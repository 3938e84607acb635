import { defaultVersion } from '../options/version-options.ts'
import type { EngineServices } from './engine-services.ts'
import type { Loadable, ModelTarget } from './model-target.ts'
import type { ModelState, ModelVersionStatus } from './model-state.ts'
import { ModelVersion, type LoadLimits, type ServableConfig, type VersionOwner } from './model-version.ts'

/** What a name needs of those that have it. */
export interface NameOwner {
  /** Whether what is released keeps its name, to be looked at. */
  readonly closed: boolean
  /** No version of it is left. */
  gone(model: NamedModel): void
  /** Something is released that nobody waits for. */
  leaving(released: Promise<void>): void
}

/** The versions of one name. Requests that name none go to the newest that is ready. */
export class NamedModel implements ModelTarget, VersionOwner {
  readonly name: string
  /** What that is; where none is ready, the newest, and the last when there is none any more. */
  serving!: Loadable
  readonly #owner: NameOwner
  readonly #services: EngineServices
  readonly #versions = new Map<number, ModelVersion>()
  /** Versions that are being released, and have others in their places. */
  readonly #leaving = new Set<ModelVersion>()
  /** What has to be released first: those that had the name. */
  #after: Promise<unknown> | null
  #end: Promise<unknown> | null = null

  /** @param after what has to be released before anything is loaded; `null` for nothing. */
  constructor(name: string, owner: NameOwner, services: EngineServices, after: Promise<unknown> | null) {
    this.name = name
    this.#after = after
    void after?.then(() => (this.#after = null))
    this.#owner = owner
    this.#services = services
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

  /** Resolves when all of it is released; `null` unless that is under way. */
  get ending(): Promise<unknown> | null {
    return this.#end
  }

  /** See {@link ModelVersion.load}; resolves with the version. */
  async load(config: ServableConfig, limits: LoadLimits): Promise<ModelVersion> {
    const number = config.version ?? defaultVersion
    const present = this.#versions.get(number)
    const isFree = present === undefined || present.ending !== null
    const version = isFree ? this.#succeed(number, present) : present
    await version.load(config, limits)
    return version
  }

  /** @param ending what has that number, and is being released. */
  #succeed(number: number, ending: ModelVersion | undefined): ModelVersion {
    const version = new ModelVersion(number, this, this.#services, ending?.ending ?? this.#after)
    if (ending !== undefined) this.#leaving.add(ending)
    this.#versions.set(number, version)
    return version
  }

  /** Resolves when nothing of it is being loaded, whatever has come of it. */
  loaded(): Promise<unknown> {
    return Promise.all(this.all().map((version) => version.loaded()))
  }

  /** Takes no requests of callers any more; pipelines of which it is a step go on. */
  refuse(): void {
    for (const { serving } of this.all()) serving.refuse()
  }

  /** Ends all its versions, as {@link ModelVersion.end} does. */
  end(destroy: boolean): Promise<unknown> {
    const ending = [...this.all(), ...this.#leaving].map((version) => version.end(destroy))
    ending.push(this.serving.close(destroy))
    return (this.#end ??= Promise.all(ending))
  }

  changed(): void {
    const all = this.all()
    const isIn = (state: ModelState) => all.find(({ serving }) => serving.state === state)
    // While the engine closes, pipelines have what drains serve them to their end.
    const newest = isIn('ready') ?? (this.#owner.closed ? isIn('draining') : undefined) ?? all[0]
    if (newest !== undefined) this.serving = newest.serving
  }

  gone(version: ModelVersion): void {
    this.#leaving.delete(version)
    if (this.#owner.closed && !version.isVacant) return
    if (this.#versions.get(version.version) === version) this.#versions.delete(version.version)
    this.changed()
    if (this.#versions.size === 0 && this.#leaving.size === 0) this.#owner.gone(this)
  }

  leaving(released: Promise<void>): void {
    this.#owner.leaving(released)
  }
}
