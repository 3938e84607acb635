import { InferenceError, invalidArgument } from '../errors.ts'
import type { ModelStatistics } from '../observability/model-stats.ts'
import type { AnySignature, InferOptions, ModelSignature } from './config.ts'
import { FeedParser } from './feeds.ts'
import type { ModelMetadata } from './metadata.ts'
import type { ModelScheduler } from './model-scheduler.ts'
import { InferRequest } from './request.ts'

/**
 * `loading` until every instance is up and warmed, then `ready`; `draining` while what was accepted is finished, then
 * `closed`; `failed` when it could not be loaded or its worker died repeatedly.
 */
export type ModelState = 'loading' | 'ready' | 'draining' | 'closed' | 'failed'

/** A loaded model. Made by `engine.load`; any number of callers may use it at once. */
export class Model<M extends ModelSignature = AnySignature> {
  /** The name it was loaded under. */
  readonly name: string
  /** Set by the engine, read by everyone. */
  readonly #lifecycle: ModelLifecycle
  #parser: FeedParser | null = null

  /** @internal */
  constructor(name: string, lifecycle: ModelLifecycle) {
    this.name = name
    this.#lifecycle = lifecycle
  }

  get state(): ModelState {
    return this.#lifecycle.state
  }

  /** Why the model failed; `null` unless its state is `failed`. */
  get failure(): string | null {
    return this.#lifecycle.failure
  }

  /**
   * Inputs, outputs and batch size.
   *
   * @throws InferenceError `ERR_MODEL_NOT_READY` until the model has been opened once.
   */
  get metadata(): ModelMetadata {
    const { scheduler } = this.#lifecycle
    if (scheduler === null) throw this.#notReady()
    return scheduler.metadata
  }

  /**
   * Runs one request, in a batch with others where the model allows it.
   *
   * The data of `feeds` is read when its batch is formed: leave it alone until the call settles.
   *
   * @param feeds every input by name; dims include the batch dimension, and there may be several rows.
   * @returns the outputs with the request's own rows, owned by the caller.
   * @throws InferenceError `ERR_INVALID_ARG`, `ERR_QUEUE_FULL`, `ERR_TIMEOUT`, `ERR_EXECUTION`,
   * `ERR_INSTANCE_CRASHED`, `ERR_MODEL_NOT_READY` or `ERR_CLOSED`; an aborted request rejects with its signal's reason.
   */
  infer(feeds: M['inputs'], options?: InferOptions<keyof M['outputs'] & string>): Promise<M['outputs']> {
    const { state, scheduler } = this.#lifecycle
    if (state !== 'ready' || scheduler === null) return Promise.reject(this.#notReady())
    try {
      this.#parser ??= new FeedParser(scheduler.metadata)
      const parsed = this.#parser.parse(feeds)
      const outputs = options === undefined ? null : checkOptions(options, scheduler.metadata)
      return new Promise((resolve, reject) => {
        const request = new InferRequest(parsed, outputs, options?.requestId, resolve, reject)
        scheduler.submit(request, options?.timeoutMs, options?.signal)
      })
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** Statistics since the model was loaded; they include every response delivered so far. */
  stats(): ModelStatistics {
    const { scheduler } = this.#lifecycle
    if (scheduler === null) throw this.#notReady()
    return scheduler.stats.snapshot(scheduler.waiting)
  }

  #notReady(): InferenceError {
    const { state, failure } = this.#lifecycle
    const closed = state === 'draining' || state === 'closed'
    const why = failure === null ? '' : `: ${failure}`
    return new InferenceError(
      closed ? 'ERR_CLOSED' : 'ERR_MODEL_NOT_READY',
      `Model '${this.name}' is ${state}${why}. ${state === 'failed' ? 'Unload it and load it again.' : state === 'loading' ? 'Wait for load().' : 'Load it again.'}`,
      { model: this.name, expected: 'ready', received: state },
    )
  }
}

/** What a {@link Model} shows of the engine's work on it. */
export interface ModelLifecycle {
  readonly state: ModelState
  readonly failure: string | null
  readonly scheduler: ModelScheduler | null
}

const optionNames = ['signal', 'timeoutMs', 'outputs', 'requestId']

/** Checks the options of one call; returns the indices of the outputs wanted, `null` for all. */
function checkOptions(options: unknown, metadata: ModelMetadata): number[] | null {
  const model = metadata.name
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw invalidArgument('options', 'an object', options, { model })
  }
  for (const name in options) {
    if (!optionNames.includes(name)) {
      throw invalidArgument(`options.${name}`, `one of ${optionNames.join(', ')}`, name, { model })
    }
  }
  const { signal, timeoutMs, outputs, requestId } = options as Record<keyof InferOptions, unknown>
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw invalidArgument('options.signal', 'an AbortSignal', signal, { model })
  }
  if (timeoutMs !== undefined && !(typeof timeoutMs === 'number' && timeoutMs > 0 && timeoutMs < 2 ** 31)) {
    throw invalidArgument('options.timeoutMs', 'milliseconds, more than 0 and less than 2^31', timeoutMs, { model })
  }
  if (requestId !== undefined && typeof requestId !== 'string') {
    throw invalidArgument('options.requestId', 'a string', requestId, { model })
  }
  return outputs === undefined ? null : outputIndices(outputs, metadata)
}

function outputIndices(outputs: unknown, metadata: ModelMetadata): number[] {
  const model = metadata.name
  if (!Array.isArray(outputs) || outputs.length === 0) {
    throw invalidArgument('options.outputs', 'an array of output names', outputs, { model })
  }
  return outputs.map((name) => {
    const index = metadata.outputs.findIndex((output) => output.name === name)
    if (index !== -1) return index
    const unservable = metadata.unservableOutputs.find((output) => output.name === name)
    const names = metadata.outputs.map((output) => `'${output.name}'`).join(', ')
    const hint = unservable ? { hint: `It is ${unservable.type}, which onnxruntime-node cannot return` } : {}
    throw invalidArgument('options.outputs', `names out of ${names}`, name, { model, ...hint })
  })
}
