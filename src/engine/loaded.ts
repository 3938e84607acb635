import { invalidConfig } from '../errors.ts'
import type { Leases } from '../features/leases/leases.ts'
import type { Pipeline } from '../features/pipelines/pipeline.ts'
import type { ServedModel } from '../features/served-model.ts'
import { defaultVersion, type ScaleOptions } from '../options/method-options.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import { isPipeline, type ResolvedPipeline } from '../options/pipeline-config.ts'
import type { ModelOrigin } from '../options/engine-options.ts'
import type { Worker } from '../run/worker.ts'
import type { InstanceOrigin } from '../models/scaling/model-instances.ts'
import type { ModelEvent } from '../observe/engine-events.ts'
import type { IgnoredOptions } from '../request/ignored-options.ts'
import type { EngineResources } from './engine-resources.ts'
import { checkFileDescriptors, closedWhileLoading } from './load-failure.ts'

/**
 * The state of a model:
 *
 * - `loading`: until every instance is open and warmed up.
 * - `ready`: it serves.
 * - `draining`: accepted requests are being finished.
 * - `closed`: everything is released.
 * - `failed`: it could not be loaded, its workers died three times in a row during its own runs, or no thread could be
 *   started any more.
 */
export type ModelState = 'loading' | 'ready' | 'draining' | 'closed' | 'failed'

/** The status of one version of a name. */
export interface ModelVersionStatus {
  /** Its number. */
  readonly version: number
  /** Its state. */
  readonly state: ModelState
  /** Why it failed; `null` unless its state is `failed`. */
  readonly failure: string | null
  /** Whether another load is in progress that will replace it. */
  readonly replacing: boolean
}

/** What a load is for. */
export interface LoadFor extends InstanceOrigin {
  /** Called when the state of the model changes. */
  changed(event: ModelEvent): void
  /** Called when the model is able to serve. If it rejects, the load fails with that error. */
  accept?: (() => Promise<void>) | undefined
  /** What earlier loads of the version have warned of. Default: nothing. */
  readonly ignored?: IgnoredOptions | undefined
}

/** What a load opens and later releases: the sessions of a model or function, or the steps of a pipeline. */
export interface Opened {
  /** What its sessions are opened from; `null` before that is known, and without sessions. */
  readonly origin: ModelOrigin | null
  /** The workers of its sessions. */
  readonly workers: Worker[]
  /** Leases of its own rows; `null` if there were none. */
  readonly leases: Leases | null
  /** Opens it, and makes its {@link Loaded} ready. Rejects with a typed error once everything is released. */
  open(): Promise<void>
  /** The load is not wanted any more: no further step of it begins. */
  stopOpening(): void
  /** Begins to end what changes while it serves. */
  stopChanging(): void
  /** Releases everything; nothing waits or runs. */
  release(): Promise<void>
  /** See `Model.scale`. */
  scale(options: ScaleOptions): Promise<void>
}

/** The code that serves models. The first load imports it while a child process starts. */
let modelCode: Promise<typeof import('./loaded-model.ts')> | null = null
let pipelineCode: Promise<typeof import('./loaded-pipeline.ts')> | null = null

/** @throws InferenceError `ERR_MODEL_LOAD` when files cannot be opened. */
function codeOf<Code>(name: string, config: ResolvedConfig | null, load: () => Promise<Code>): Promise<Code> {
  checkFileDescriptors(name, config)
  return load()
}

/** @param circle the path by which the pipeline contains itself; `null` if it does not. */
function checkCircle(name: string, { steps }: ResolvedPipeline, circle: readonly string[] | null): void {
  if (circle === null) return
  const step = steps.findIndex(({ model }) => model === circle[1])
  throw invalidConfig(
    name,
    `steps[${step}].model`,
    'a model that does not have this pipeline as a step itself',
    circle.join(' -> '),
  )
}

/** One load of a model, function or pipeline in an engine, and its life until everything is released. */
export class Loaded {
  readonly name: string
  readonly version: number
  /** With defaults. */
  readonly config: ResolvedConfig | ResolvedPipeline
  readonly engine: EngineResources
  readonly loadFor: LoadFor
  state: ModelState = 'loading'
  failure: string | null = null
  /** `null` until it serves. */
  served: ServedModel | Pipeline | null = null
  /** `null` until its code is loaded, which an application that has only imported the engine does without. */
  opened: Opened | null = null
  /** Leases of the models that it has replaced, which end with it. */
  #earlierLeases: Leases[] = []
  #loading: Promise<void> = Promise.resolve()
  #closing: Promise<void> | null = null

  constructor(
    name: string,
    config: ResolvedConfig | ResolvedPipeline,
    engine: EngineResources,
    loadFor: LoadFor,
  ) {
    this.name = name
    this.version = config.version ?? defaultVersion
    this.config = config
    this.engine = engine
    this.loadFor = loadFor
  }

  /** See {@link Opened.origin}. */
  get origin(): ModelOrigin | null {
    return this.opened?.origin ?? null
  }

  /** See {@link Opened.workers}. */
  get workers(): Worker[] {
    return this.opened?.workers ?? []
  }

  /** Loads it; the state is then `ready`. Rejects with a typed error, with everything released. */
  load(): Promise<void> {
    const loading = this.engine.keepAlive.during(this.#open())
    this.#loading = loading.catch(() => {})
    return loading
  }

  async #open(): Promise<void> {
    const { name, config } = this
    const { uses, host } = this.engine
    try {
      if (isPipeline(config)) {
        uses.hold(this, name, config.steps)
        checkCircle(name, config, uses.circle(name))
        pipelineCode ??= codeOf(name, null, () => import('./loaded-pipeline.ts'))
        const { LoadedPipeline } = await pipelineCode
        return await this.#openWith(new LoadedPipeline(this, config))
      }
      modelCode ??= codeOf(name, config, () => import('./loaded-model.ts'))
      host.startAhead(name, config)
      const { LoadedModel } = await modelCode
      await this.#openWith(new LoadedModel(this, config))
    } catch (error) {
      if (this.state === 'loading') this.fail((error as Error).message)
      uses.release(this) // fail() has done so, unless it was closed
      throw error
    } finally {
      if (!isPipeline(config)) host.endAhead(config)
    }
  }

  #openWith(opened: Opened): Promise<void> {
    this.opened = opened
    if (this.state === 'loading') return opened.open()
    return opened.release().then(() => {
      throw closedWhileLoading(this.name)
    })
  }

  /** See `Model.scale`. */
  scale(options: ScaleOptions): Promise<void> {
    return this.opened!.scale(options)
  }

  /** It cannot serve, or no longer can; a load in progress is cancelled. */
  fail(reason: string): void {
    if (this.state === 'closed') return
    this.opened?.stopChanging()
    this.engine.uses.release(this)
    this.failure = reason
    this.become('failed')
  }

  /** Accepts no more requests of callers; pipelines with it as a step continue. */
  refuse(): void {
    if (this.state === 'ready') this.become('draining')
  }

  /**
   * Accepts no more requests, finishes accepted ones (or rejects them and stops runs), and releases everything. Leases
   * move to a successor.
   */
  close(destroy: boolean, successor?: Loaded): Promise<void> {
    if (destroy) this.served?.destroy()
    this.#endLeases(successor)
    this.#closing ??= this.engine.keepAlive.during(this.#close())
    return this.#closing
  }

  async #close(): Promise<void> {
    if (this.state !== 'failed') this.become('draining')
    this.opened?.stopChanging()
    await this.#loading
    await this.served?.drained()
    await this.opened?.release()
    this.become('closed')
  }

  #endLeases(successor: Loaded | undefined): void {
    const leases = this.opened?.leases ?? null
    const all = [...this.#earlierLeases.splice(0), ...(leases === null ? [] : [leases])]
    if (successor === undefined) for (const each of all) each.endAll()
    else successor.#earlierLeases.push(...all.filter(({ anyHeld }) => anyHeld))
  }

  become(state: Exclude<ModelState, 'loading'>): void {
    if (state === this.state) return
    const wasLoading = this.state === 'loading'
    this.state = state
    if (wasLoading && state !== 'ready') this.opened?.stopOpening()
    const { name: model, version, failure } = this
    this.loadFor.changed({ type: state, model, version, ...(state === 'failed' ? { reason: failure! } : {}) })
  }
}
