import { InferenceError } from '../errors.ts'
import type { Leases } from '../features/leases/leases.ts'
import type { Target } from '../features/target.ts'
import { defaultVersion, type ScaleOptions } from '../options/method-options.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import type { ResolvedPipeline } from '../options/pipeline-config.ts'
import type { ModelOrigin } from '../options/engine-options.ts'
import type { Worker } from '../run/worker.ts'
import type { InstanceOrigin } from '../models/scaling/model-instances.ts'
import type { ModelEvent } from '../observe/engine-events.ts'
import type { IgnoredOptions } from '../request/ignored-options.ts'
import type { EngineResources } from './engine-resources.ts'

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

/** Advice for a caller on a model that is not ready, other than to load it again. */
const nextStep: Partial<Record<ModelState, string>> = {
  loading: 'Wait for load().',
  draining: 'It accepts no more requests, because it or its engine is closing.',
}

/** The error for a request to a model that is not ready. */
export function notReady(
  model: string,
  { state, failure }: { readonly state: ModelState; readonly failure: string | null },
): InferenceError {
  const closed = state === 'draining' || state === 'closed'
  const why = failure === null ? '' : `: ${failure}`
  const message = `Model '${model}' is ${state}${why}. ${nextStep[state] ?? 'Load it again.'}`
  return new InferenceError(closed ? 'ERR_CLOSED' : 'ERR_MODEL_NOT_READY', message, {
    model,
    expected: 'ready',
    received: state,
  })
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

/** One load of a model, function or pipeline in an engine, and its life until everything is released. */
export abstract class Loaded<Served extends Target = Target> {
  readonly name: string
  readonly version: number
  state: ModelState = 'loading'
  failure: string | null = null
  /** `null` until it serves. */
  served: Served | null = null
  /** The configuration, with defaults. */
  abstract readonly config: ResolvedConfig | ResolvedPipeline
  protected readonly engine: EngineResources
  protected readonly loadFor: LoadFor
  /** Leases of the models that it has replaced, which end with it. */
  #earlierLeases: Leases[] = []
  #loading: Promise<void> = Promise.resolve()
  #closing: Promise<void> | null = null

  constructor(name: string, version: number | undefined, engine: EngineResources, loadFor: LoadFor) {
    this.name = name
    this.version = version ?? defaultVersion
    this.engine = engine
    this.loadFor = loadFor
  }

  /** What its sessions are opened from; `null` before that is known, and without sessions. */
  get origin(): ModelOrigin | null {
    return null
  }

  /** The workers of its sessions. */
  get workers(): Worker[] {
    return []
  }

  /** Leases of its own rows; `null` if there were none. */
  protected get leases(): Leases | null {
    return null
  }

  /** Loads it; the state is then `ready`. Rejects with a typed error, with everything released. */
  load(): Promise<void> {
    const loading = this.engine.keepAlive.during(this.open())
    this.#loading = loading.catch(() => {})
    return loading
  }

  /** See {@link load}. */
  protected abstract open(): Promise<void>

  /** The load is not wanted any more: no further step of it begins. */
  protected abstract stopOpening(): void

  /** Begins to end what changes while it serves. */
  protected stopChanging(): void {}

  /** Releases everything; nothing waits or runs. */
  protected abstract release(): Promise<void>

  /** See `Model.scale`. */
  abstract scale(options: ScaleOptions): Promise<void>

  /** It cannot serve, or no longer can; a load in progress is cancelled. */
  fail(reason: string): void {
    if (this.state === 'closed') return
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
    this.stopChanging()
    await this.#loading
    await this.served?.drained()
    await this.release()
    this.become('closed')
  }

  #endLeases(successor: Loaded | undefined): void {
    const { leases } = this
    const all = [...this.#earlierLeases.splice(0), ...(leases === null ? [] : [leases])]
    if (successor === undefined) for (const each of all) each.endAll()
    else successor.#earlierLeases.push(...all.filter(({ anyHeld }) => anyHeld))
  }

  protected become(state: Exclude<ModelState, 'loading'>): void {
    if (state === this.state) return
    const wasLoading = this.state === 'loading'
    this.state = state
    if (wasLoading && state !== 'ready') this.stopOpening()
    const { name: model, version, failure } = this
    this.loadFor.changed({
      type: state,
      model,
      version,
      ...(state === 'failed' ? { reason: failure! } : {}),
    })
  }
}
