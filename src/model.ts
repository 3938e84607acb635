import { outsideContext } from './base/async-context.ts'
import { classify, classifyAlong, type Classification } from './engine/classification.ts'
import type { InferenceError } from './errors.ts'
import type { ModelCapacity, ModelStatistics } from './observe/model-statistics.ts'
import { checkInferOptions, type InferOptions, type ReportedOutputs } from './options/infer-options.ts'
import type {
  AnyOutputs,
  AnySignature,
  ModelSignature,
  OutputName,
  WantedOutputs,
} from './options/model-signature.ts'
import type { LeaseOptions, ScaleOptions } from './options/method-options.ts'
import { Lease } from './features/leases/lease.ts'
import {
  inferMany,
  type InferManyOptions,
  type InferManyResult,
  type ItemSource,
} from './request/infer-many.ts'
import type { ModelMetadata } from './tensor/metadata.ts'
import {
  notReady,
  statisticsOf,
  type ModelState,
  type ModelTarget,
  type ModelVersionStatus,
} from './engine/model-target.ts'
import { capacityOfServing, roomOf, metadataOf } from './features/pipelines/step-target.ts'
import type { Answer } from './request/infer-request.ts'
import { SequenceStream, type StreamOptions } from './engine/sequence-stream.ts'
import { Submission } from './engine/submission.ts'

/**
 * A loaded model. Made by `engine.load`; any number of callers may use it at once. It stays when what it stands for is
 * loaded again: requests go to what was loaded last, those before are answered by what they were accepted by.
 *
 * One that was got for a version is that version; any other is the name: whichever of its versions is the newest that is ready.
 */
export class Model<M extends ModelSignature = AnySignature> {
  /** The name it was loaded under. */
  readonly name: string
  /** Kept up by the engine, read by everyone. */
  readonly #target: ModelTarget
  readonly #unload: () => Promise<void>
  readonly #submission: Submission

  /** @internal */
  constructor(target: ModelTarget, unload: () => Promise<void>) {
    this.name = target.name
    this.#target = target
    this.#unload = unload
    this.#submission = new Submission(target)
  }

  /** Where it is in its life, from loading to unloaded. */
  get state(): ModelState {
    return this.#target.serving.state
  }

  /** Why it failed; `null` unless its state is `failed`. */
  get failure(): string | null {
    return this.#target.serving.failure
  }

  /** The version that answers requests now, or would if it were ready. */
  get version(): number {
    return this.#target.serving.version
  }

  /** All versions of its name, ascending; none once it is unloaded. */
  get versions(): ModelVersionStatus[] {
    return this.#target.versions
  }

  /**
   * Inputs, outputs, batch size, and whether requests are joined. Another object when that is found out while it serves.
   *
   * @throws InferenceError `ERR_MODEL_NOT_READY` until the model has been opened once.
   */
  get metadata(): ModelMetadata {
    const metadata = metadataOf(this.#target.serving)
    if (metadata === null) throw this.#notReady()
    return metadata
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
  infer<Name extends OutputName<M> = never>(
    feeds: M['inputs'],
    options?: InferOptions<Name>,
  ): Promise<WantedOutputs<M, Name>>
  infer<Name extends OutputName<M> = never>(
    feeds: M['inputs'],
    options?: InferOptions<Name, boolean>,
  ): Promise<WantedOutputs<M, Name> | ReportedOutputs<WantedOutputs<M, Name>>>
  infer(feeds: M['inputs'], options?: InferOptions<string, boolean>): Promise<Answer> {
    return this.#submission.infer(feeds, options)
  }

  /**
   * Leases rows of the batch that is being filled, to be written where they will be run: what `infer()` copies is written there at
   * once. `lease.inputs` has an array for each input; `lease.infer()` runs the rows, `lease.release()` gives them back. A lease is
   * no request: it takes no place in the queue and holds nobody up.
   *
   * Rows lie there with the native executor, for a model of fixed shapes whose rows have 4 KiB or more. Else, and where many are
   * held, they have memory of their own and are copied once, as with `infer()`.
   *
   * @param rows how many, at most `maxBatchSize`. Default 1.
   * @throws InferenceError `ERR_INVALID_ARG`, also for a pipeline, and for a model with sequences, or with inputs of strings, of 4 bits, or
   * that are no tensors; `ERR_MODEL_NOT_READY` or `ERR_CLOSED`.
   */
  lease<Inputs = M['inputs']>(rows = 1, options?: LeaseOptions): Lease<Inputs, M['outputs']> {
    const { serving } = this.#target
    if (serving.state !== 'ready') throw this.#notReady()
    const leases = serving.leases.lend()
    const held = leases.take(rows, options)
    return new Lease(leases, held, (inferOptions) =>
      this.#submission.inferLeased({ of: serving, leases, rows: held }, inferOptions),
    )
  }

  /**
   * Begins a sequence of requests, which go on from each other; for a model with `sequence` in its configuration.
   *
   * @throws InferenceError `ERR_INVALID_ARG`, `ERR_MODEL_NOT_READY` or `ERR_CLOSED`.
   */
  sequence(options: StreamOptions = {}): SequenceStream<M> {
    if (this.state !== 'ready') throw this.#notReady()
    return SequenceStream.of<M>(this.#target, options)
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
        if (this.state !== 'ready') throw this.#notReady()
        checkInferOptions(each, this.metadata)
        const { instances, maxBatchSize } = this.capacity()
        const steps = this.#target.serving.pipeline?.graph.steps.length ?? 1
        // Of what serves by then; where that is nothing, whoever waits is to be told.
        const room = () => roomOf(this.#target.serving, each.priority)
        return { defaultInFlight: 2 * Math.max(1, maxBatchSize) * Math.max(1, instances) * steps, room }
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
    const { serving } = this.#target
    if (metadataOf(serving) === null) throw this.#notReady()
    return capacityOfServing(serving)
  }

  /**
   * Statistics since the model was loaded, the last time where it was loaded again; they include every response of that so far.
   *
   * @throws InferenceError `ERR_MODEL_NOT_READY` until the model has been opened once.
   */
  stats(): ModelStatistics {
    const found = statisticsOf(this.#target.serving)
    if (found === null) throw this.#notReady()
    return found
  }

  /**
   * Changes how many instances serve, while they do; resolves when that is so. Further ones are opened on the workers with
   * the fewest, and take batches once they are warmed: with the native executor they share the session that is there, and
   * nothing is loaded. One that is taken out first ends what it runs; what waited behind that goes to others. Calls are
   * worked off one after the other, each in whole or not at all. Threads of a run stay as many as they were at the load.
   *
   * @throws InferenceError `ERR_INVALID_ARG` (a kind that the model has no group of, a count that it may not have),
   * `ERR_MODEL_LOAD` (instances cannot be opened; those that serve go on), `ERR_MODEL_NOT_READY` or `ERR_CLOSED`, also when the
   * model fails or is closed meanwhile.
   */
  async scale(options: ScaleOptions): Promise<void> {
    const lifecycle = this.#target.serving
    if (lifecycle.state !== 'ready') throw this.#notReady()
    try {
      await outsideContext(() => lifecycle.scale(options))
    } catch (error) {
      throw lifecycle.state === 'ready' ? error : notReady(this.name, lifecycle) // whatever has taken its place
    }
  }

  /**
   * The classes with the highest scores, for each row of an output; one row for an output without a batch dimension.
   *
   * @param outputs what `infer()` has answered with.
   * @param count how many classes, at most as many as there are. Default 1.
   * @param output which of them. Default: the only one that has labels, or the only one.
   * @param axis the dimension of the output that counts its classes, where each position of a row has classes of its own: -1 or 2 for tokens
   * `[rows, tokens, classes]`, 1 for pixels `[rows, classes, height, width]`. Then for each row a list of its positions, in their order in the
   * output, and for each of those its classes. Default: all that a row has are scores of its classes.
   * @throws InferenceError `ERR_INVALID_ARG` for an output that is not there or has no numbers, or an axis that it has not; `ERR_MODEL_NOT_READY`.
   */
  classification(outputs: Partial<AnyOutputs>, count?: number, output?: OutputName<M>): Classification[][]
  classification(
    outputs: Partial<AnyOutputs>,
    count: number | undefined,
    output: OutputName<M> | undefined,
    axis: number,
  ): Classification[][][]
  classification(
    outputs: Partial<AnyOutputs>,
    count = 1,
    output?: OutputName<M>,
    axis?: number,
  ): Classification[][] | Classification[][][] {
    const { metadata, labels } = this
    return axis === undefined
      ? classify(metadata, labels, { outputs, count, output })
      : classifyAlong(axis, metadata, labels, { outputs, count, output })
  }

  /** @internal Names of the classes of its outputs, by output; while it has `metadata`. */
  get labels(): ReadonlyMap<string, readonly string[]> {
    const { scheduler, pipeline } = this.#target.serving
    return pipeline?.labels ?? scheduler!.joining.labels
  }

  /**
   * Takes no more requests, finishes those accepted, and releases this very model: all versions of the name, or the one
   * that it is. Loads under way are rejected with `ERR_CLOSED`; what is loaded under the name afterwards is another model.
   * May be called more than once, and in any state.
   */
  unload(): Promise<void> {
    return this.#unload()
  }

  /** As {@link unload}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#unload()
  }

  #notReady(): InferenceError {
    return notReady(this.name, this.#target.serving)
  }
}
