import { InferenceError } from './errors.ts'
import type { ModelStatistics } from './observability/model-stats.ts'
import type { InferOptions, ReportedOutputs } from './config/infer-options.ts'
import type { AnySignature, ModelSignature, OutputName, WantedOutputs } from './config/model-signature.ts'
import type { FeedParser } from './request/feeds.ts'
import { checkInferOptions, noOptions, type CheckedOptions } from './config/check-infer-options.ts'
import { IgnoredOptions } from './request/ignored-options.ts'
import { inferMany, type InferManyOptions, type InferManyResult } from './request/infer-many.ts'
import type { ItemSource } from './request/item-source.ts'
import type { ModelMetadata } from './metadata.ts'
import type { Scheduler } from './scheduler/scheduler.ts'
import { InferRequest, type Answer, type ParsedFeeds } from './request/infer-request.ts'
import type { ResponseSharing } from './response-cache/response-sharing.ts'
import { SplitRequest } from './scheduler/split-request.ts'

/**
 * `loading` until every instance is up and warmed, then `ready`; `draining` while what was accepted is finished, then
 * `closed`; `failed` when it could not be loaded, its workers died three times in a row over its own runs, or no thread could be had
 * any more.
 */
export type ModelState = 'loading' | 'ready' | 'draining' | 'closed' | 'failed'

/** How much more a model can take; see {@link Model.capacity}. */
export interface ModelCapacity {
  /** Instances that serve. */
  readonly instances: number
  /** Most rows in one run; 0 for a model whose requests are not joined. */
  readonly maxBatchSize: number
  /** Requests accepted and not started. */
  readonly waiting: number
  /** Batches that run. */
  readonly running: number
  /** Requests of the default level that would be accepted now; `Infinity` without a `maxQueueSize`. */
  readonly free: number
  /** Requests worked off per second while there was work, from the last batches; 0 before the first. */
  readonly requestsPerSecond: number
  /**
   * In how many milliseconds one more request would be answered, by the times of earlier runs; 0 when nobody can tell:
   * before the first, and when no instance is left, so that {@link ModelCapacity.instances} is 0 too.
   */
  readonly estimatedMs: number
}

/** What a caller can do about a model that is not ready, if that is not to load it again. */
const nextStep: Partial<Record<ModelState, string>> = {
  loading: 'Wait for load().',
  draining: 'It takes no more requests: it, or its engine, is being closed.',
}

/** A loaded model. Made by `engine.load`; any number of callers may use it at once. */
export class Model<M extends ModelSignature = AnySignature> {
  /** The name it was loaded under. */
  readonly name: string
  /** Set by the engine, read by everyone. */
  readonly #lifecycle: ModelLifecycle
  readonly #unload: () => Promise<void>
  readonly #ignored: IgnoredOptions

  /** @internal */
  constructor(name: string, lifecycle: ModelLifecycle, unload: () => Promise<void>) {
    this.name = name
    this.#lifecycle = lifecycle
    this.#unload = unload
    this.#ignored = new IgnoredOptions(name)
  }

  get state(): ModelState {
    return this.#lifecycle.state
  }

  /** Why the model failed; `null` unless its state is `failed`. */
  get failure(): string | null {
    return this.#lifecycle.failure
  }

  /**
   * Inputs, outputs, batch size, and whether requests are joined. Another object when that is found out while it serves.
   *
   * @throws InferenceError `ERR_MODEL_NOT_READY` until the model has been opened once.
   */
  get metadata(): ModelMetadata {
    const { scheduler } = this.#lifecycle
    if (scheduler === null) throw this.#notReady()
    return scheduler.joining.metadata
  }

  /**
   * Runs one request, in a batch with others where the model allows it.
   *
   * The data of `feeds` is read when its batch is formed: leave it alone until the call settles. With `responseCache` or `coalesce` it
   * is read by the call itself.
   *
   * @param feeds every input by name, as properties of its own; dims include the batch dimension, and there may be several rows.
   * @returns the outputs with the request's own rows, owned by the caller.
   * @throws InferenceError `ERR_INVALID_ARG`, `ERR_QUEUE_FULL`, `ERR_TIMEOUT`, `ERR_DEADLINE`, `ERR_EXECUTION`,
   * `ERR_INSTANCE_CRASHED`, `ERR_MODEL_NOT_READY` or `ERR_CLOSED`; an aborted request rejects with its signal's reason.
   */
  infer<Name extends OutputName<M> = never>(
    feeds: M['inputs'],
    options: InferOptions<Name, boolean> & { report: true },
  ): Promise<ReportedOutputs<WantedOutputs<M, Name>>>
  infer<Name extends OutputName<M> = never>(feeds: M['inputs'], options?: InferOptions<Name>): Promise<WantedOutputs<M, Name>>
  infer<Name extends OutputName<M> = never>(
    feeds: M['inputs'],
    options?: InferOptions<Name, boolean>,
  ): Promise<WantedOutputs<M, Name> | ReportedOutputs<WantedOutputs<M, Name>>>
  infer(feeds: M['inputs'], options?: InferOptions<string, boolean>): Promise<Answer> {
    const { state, scheduler, parser } = this.#lifecycle
    if (state !== 'ready' || scheduler === null || parser === null) return Promise.reject(this.#notReady())
    try {
      const checked = options === undefined ? noOptions : checkInferOptions(options, scheduler.metadata)
      const { maxBatchSize } = scheduler.joining.metadata
      const split = (checked.splitOversized ?? this.#lifecycle.splitsOversized) && maxBatchSize > 0
      const parsed = parser.parse(feeds, split)
      return this.#submit(scheduler, parsed, checked, split && !parsed.whole ? maxBatchSize : Infinity)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * Runs every item of an iterable or async iterable, taking from it no more than can be used at once; a full queue is
   * waited for. An item that fails gives an `error` and the stream goes on. Leaving the loop withdraws what is queued.
   *
   * @param source the feeds of each request, or promises of them: one that rejects is the error of its item.
   * @throws InferenceError `ERR_INVALID_ARG`, `ERR_MODEL_NOT_READY` or `ERR_CLOSED`, by the first `next()`. After the
   * results of all items that were taken: what the source throws, the signal's reason once it fired, and `ERR_CLOSED` or
   * `ERR_MODEL_NOT_READY` when the model was closed or failed meanwhile.
   */
  inferMany<Name extends OutputName<M> = never>(
    source: ItemSource<M['inputs']>,
    options?: InferManyOptions<Name>,
  ): AsyncGenerator<InferManyResult<WantedOutputs<M, Name>>, void, undefined> {
    const streamed = {
      name: this.name,
      start: (each: InferOptions) => {
        if (this.#lifecycle.state !== 'ready') throw this.#notReady()
        checkInferOptions(each, this.metadata)
        const { instances, maxBatchSize } = this.capacity()
        const { levels } = this.#lifecycle.scheduler!
        return { defaultInFlight: 2 * Math.max(1, maxBatchSize) * Math.max(1, instances), room: () => levels.of(each.priority).room }
      },
      infer: (feeds: M['inputs'], each: InferOptions) => this.infer(feeds, each as InferOptions<Name>),
    }
    return inferMany(streamed, source, options)
  }

  /**
   * How much more the model can take now, for callers that want to slow down rather than be refused.
   *
   * @throws InferenceError `ERR_MODEL_NOT_READY` until the model has been opened once.
   */
  capacity(): ModelCapacity {
    const { scheduler } = this.#lifecycle
    if (scheduler === null) throw this.#notReady()
    const { instances, joining, waiting, running, times, levels } = scheduler
    const { msPerRequest } = times.throughput
    return {
      instances: instances.size,
      maxBatchSize: joining.metadata.maxBatchSize,
      waiting,
      running,
      free: levels.of(undefined).room,
      requestsPerSecond: msPerRequest === 0 ? 0 : 1000 / msPerRequest,
      estimatedMs: scheduler.estimatedAnswerMs('', 1),
    }
  }

  /**
   * Statistics since the model was loaded; they include every response delivered so far.
   *
   * @throws InferenceError `ERR_MODEL_NOT_READY` until the model has been opened once.
   */
  stats(): ModelStatistics {
    const { scheduler } = this.#lifecycle
    if (scheduler === null) throw this.#notReady()
    return scheduler.stats.snapshot(scheduler.waiting, scheduler.instances.arena, this.#lifecycle.responses?.totals)
  }

  /**
   * Takes no more requests, finishes those accepted, and releases this very model, whatever else was loaded under its
   * name since. May be called more than once, and in any state.
   */
  unload(): Promise<void> {
    return this.#unload()
  }

  /** As {@link unload}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#unload()
  }

  #submit(scheduler: Scheduler, parsed: ParsedFeeds, options: CheckedOptions, maxRows: number): Promise<Answer> {
    const { levels } = scheduler
    const level = levels.of(options.priority)
    if (options !== noOptions) this.#ignored.look(levels, level, options.priority, options.timeoutMs)
    const { responses } = this.#lifecycle
    if (responses !== null) return responses.infer({ feeds: parsed, maxRows, level, options })
    return new Promise((resolve, reject) => {
      const request =
        parsed.rows > maxRows
          ? new SplitRequest(scheduler.metadata, parsed, maxRows, level, options, resolve, reject)
          : new InferRequest(parsed, level, options, resolve, reject)
      scheduler.submit(request, options)
    })
  }

  #notReady(): InferenceError {
    const { state, failure } = this.#lifecycle
    const closed = state === 'draining' || state === 'closed'
    const why = failure === null ? '' : `: ${failure}`
    return new InferenceError(
      closed ? 'ERR_CLOSED' : 'ERR_MODEL_NOT_READY',
      `Model '${this.name}' is ${state}${why}. ${nextStep[state] ?? 'Load it again.'}`,
      { model: this.name, expected: 'ready', received: state },
    )
  }
}

/** What a {@link Model} shows of the engine's work on it. */
export interface ModelLifecycle {
  readonly state: ModelState
  readonly failure: string | null
  readonly scheduler: Scheduler | null
  readonly parser: FeedParser | null
  /** `null` where every request is answered by a run of its own. */
  readonly responses: ResponseSharing | null
  readonly splitsOversized: boolean
}
