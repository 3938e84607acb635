import { outsideContext } from './base/async-context.ts'
import { classify, type Classification } from './engine/classification.ts'
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
import { Lease, noLeasesOf } from './features/leases/lease.ts'
import {
  inferMany,
  type InferManyOptions,
  type InferManyResult,
  type ItemSource,
} from './request/infer-many.ts'
import type { ModelMetadata, RowJoining } from './tensor/metadata.ts'
import { notReady } from './engine/load-failure.ts'
import type { ModelState, ModelVersionStatus } from './engine/loaded.ts'
import type { ModelVersion, NamedModel } from './engine/model-registry.ts'
import type { HeldRows } from './features/leases/held-rows.ts'
import type { Leases } from './features/leases/leases.ts'
import type { ServedModel } from './features/served-model.ts'
import type { Target } from './features/target.ts'
import type { Answer } from './request/infer-request.ts'
import { SequenceStream, type StreamOptions } from './engine/sequence-stream.ts'

/**
 * A loaded model, returned by `engine.load`. Any number of callers may use it at once. The object stays valid when the
 * model is loaded again: new requests go to the newest load, earlier ones are answered by the load that accepted them.
 *
 * A `Model` of a version always serves that version. A `Model` of a name serves the newest version that is ready.
 */
export class Model<M extends ModelSignature = AnySignature> {
  /** The name it was loaded under. */
  readonly name: string
  /** The engine updates it, all readers share it. */
  readonly #target: NamedModel | ModelVersion
  readonly #unload: () => Promise<void>

  /** @internal */
  constructor(target: NamedModel | ModelVersion, unload: () => Promise<void>) {
    this.name = target.name
    this.#target = target
    this.#unload = unload
  }

  /** The state of the model, from loading to unloaded. */
  get state(): ModelState {
    return this.#target.serving.state
  }

  /** Why the model failed; `null` unless its state is `failed`. */
  get failure(): string | null {
    return this.#target.serving.failure
  }

  /** The version that answers requests now, or would if it were ready. */
  get version(): number {
    return this.#target.serving.version
  }

  /** All versions of the name, ascending; empty once it is unloaded. */
  get versions(): ModelVersionStatus[] {
    return this.#target.versions
  }

  /**
   * Inputs, outputs, batch size, and whether requests are batched. It is a new object when the model learns more about
   * this while it serves.
   *
   * @throws InferenceError `ERR_MODEL_NOT_READY` until the model has been opened once.
   */
  get metadata(): ModelMetadata {
    return this.#served.metadata
  }

  /**
   * Resolves when the check of rows that needs no requests is over, with `metadata.joining` as it is then. While that is
   * `unknown`, requests run alone. Resolves at once if there is nothing to check, and when the model closes. A pipeline waits
   * for all of its steps. The event `model` of type `joining` reports later changes.
   *
   * @throws InferenceError `ERR_MODEL_NOT_READY` until the model has been opened once.
   */
  async joiningKnown(): Promise<RowJoining> {
    const served = this.#served // of one load, whatever is loaded meanwhile
    await served.joiningKnown()
    return served.metadata.joining
  }

  /**
   * Runs one request, in a batch with others where the model allows it.
   *
   * The data of `feeds` is read when the batch is formed: do not change it until the promise settles. With
   * `responseCache` or `coalesce` it is read during the call.
   *
   * @param feeds every input by name, as own properties. Dims include the batch dimension; a request may have several
   * rows.
   * @returns the outputs for the request's own rows. The caller owns them.
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
    const { serving } = this.#target // one model for the whole request, whatever is loaded meanwhile
    const { served } = serving
    if (serving.state === 'ready' && served !== null) return served.infer(feeds, options)
    return this.#refused(this.#notReady())
  }

  /**
   * Leases rows of the batch that is being filled, so that the caller writes inputs directly into the memory they run
   * from, instead of the copy that `infer()` makes. `lease.inputs` has one array per input; `lease.infer()` runs the
   * rows, `lease.release()` returns them. A lease is not a request: it takes no place in the queue and delays no other
   * request.
   *
   * Rows are in batch memory only with the native executor, for a model of fixed shapes with rows of at least 4 KiB.
   * Otherwise, and while many leases are held, they have memory of their own and are copied once, as by `infer()`.
   *
   * @param rows how many, at most `maxBatchSize`. Default 1.
   * @throws InferenceError `ERR_INVALID_ARG`, also for a pipeline, for a model with sequences, and for inputs that are
   * strings, 4-bit or not tensors; `ERR_MODEL_NOT_READY` or `ERR_CLOSED`.
   */
  lease<Inputs = M['inputs']>(rows = 1, options?: LeaseOptions): Lease<Inputs, M['outputs']> {
    const { state, served } = this.#target.serving
    if (state !== 'ready' || served === null) throw this.#notReady()
    if (served.kind === 'pipeline') throw noLeasesOf(this.name)
    const leases = served.lend()
    const held = leases.take(rows, options)
    return new Lease(leases, held, (inferOptions) => this.#inferLeased(served, leases, held, inferOptions))
  }

  /** Runs the rows of a lease in place or, if their model has been replaced, as a copy by the new model. */
  async #inferLeased(
    lender: ServedModel,
    leases: Leases,
    rows: HeldRows,
    options: InferOptions<string, boolean> = {},
  ): Promise<Answer> {
    const { serving } = this.#target
    let answer: Promise<Answer>
    try {
      leases.check(rows)
      if (serving.state !== 'ready') {
        leases.end(rows, 'closed')
        throw this.#notReady()
      }
      if (serving.served === lender) answer = lender.inferLeased(leases, rows, options)
      else {
        leases.end(rows, 'inferred')
        answer = this.infer(rows.takeCopies() as M['inputs'], options)
      }
    } catch (error) {
      return this.#refused(error)
    }
    return answer
  }

  /**
   * Begins a sequence of requests that share state. The model needs `sequence` in its configuration.
   *
   * @throws InferenceError `ERR_INVALID_ARG`, `ERR_MODEL_NOT_READY` or `ERR_CLOSED`.
   */
  sequence(options: StreamOptions = {}): SequenceStream<M> {
    if (this.state !== 'ready') throw this.#notReady()
    return SequenceStream.of<M>(this.#target, options)
  }

  /**
   * Runs every item of an iterable or async iterable. It takes only as many items from the source as it can use at
   * once, and waits while the queue is full. An item that fails yields an `error`, and the stream continues. Leaving
   * the loop withdraws the queued items.
   *
   * @param source the feeds of each request, or promises of them; a promise that rejects is the error of its item.
   * @throws InferenceError `ERR_INVALID_ARG`, `ERR_MODEL_NOT_READY` or `ERR_CLOSED` from the first `next()`. After the
   * results of all items taken: what the source throws, the signal's reason once it fires, and `ERR_CLOSED` or
   * `ERR_MODEL_NOT_READY` if the model closed or failed meanwhile.
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
        const steps = this.#served.stepCount
        // Reads the serving model at each call. When none serves, room is infinite, so that the next item gets the
        // error.
        const room = () => this.#target.serving.served?.room(each.priority) ?? Infinity
        return { defaultInFlight: 2 * Math.max(1, maxBatchSize) * Math.max(1, instances) * steps, room }
      },
      infer: (feeds: M['inputs'], each: InferOptions) => this.infer(feeds, each as InferOptions<Name>),
    }
    return inferMany(streamed, source, options)
  }

  /**
   * How many more requests the model can take now. For callers that would rather slow down than be refused.
   *
   * @throws InferenceError `ERR_MODEL_NOT_READY` until the model has been opened once.
   */
  capacity(): ModelCapacity {
    return this.#served.capacity()
  }

  /**
   * Statistics since the model was last loaded, including every response so far.
   *
   * @throws InferenceError `ERR_MODEL_NOT_READY` until the model has been opened once.
   */
  stats(): ModelStatistics {
    return this.#served.stats()
  }

  /**
   * Changes the number of instances while the model serves. Resolves when it is done.
   *
   * - A new instance opens on the worker with the fewest instances and takes batches once it is warmed up. With the
   *   native executor it shares the existing session, so no model is loaded.
   * - A removed instance finishes its run first; batches that wait behind the run go to other instances.
   * - Calls take effect one after the other, each completely or not at all.
   * - The number of threads per run stays as it was at load.
   *
   * @throws InferenceError `ERR_INVALID_ARG` (a kind without a group, or a count that is not allowed), `ERR_MODEL_LOAD`
   * (instances cannot be opened; existing ones keep serving), `ERR_MODEL_NOT_READY` or `ERR_CLOSED`, also when the
   * model fails or closes meanwhile.
   */
  async scale(options: ScaleOptions): Promise<void> {
    const lifecycle = this.#target.serving
    if (lifecycle.state !== 'ready') throw this.#notReady()
    try {
      await outsideContext(() => lifecycle.scale(options))
    } catch (error) {
      throw lifecycle.state === 'ready' ? error : notReady(this.name, lifecycle) // whatever has replaced it
    }
  }

  /**
   * Returns the classes with the highest scores, for each row of an output (one row for an output without a batch
   * dimension).
   *
   * @param outputs the result of `infer()`.
   * @param count how many classes, at most as many as there are. Default 1.
   * @param output the name of the output. Default: the only output with labels, or the only output.
   * @param axis the dimension of the output that counts classes, where each position of a row has its own classes: -1
   * or 2 for tokens `[rows, tokens, classes]`, 1 for pixels `[rows, classes, height, width]`. The result then has, for
   * each row, a list of positions in the order of the output, and for each position its classes. Default: all values of
   * a row are scores of its classes.
   * @throws InferenceError `ERR_INVALID_ARG` for an output that is missing or not numeric, or an axis that it does not
   * have; `ERR_MODEL_NOT_READY`.
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
    return classify(this.metadata, this.labels, { outputs, count, output }, axis)
  }

  /** @internal Class names by output; available once it has `metadata`. */
  get labels(): ReadonlyMap<string, readonly string[]> {
    return this.#served.labels
  }

  /**
   * Stops accepting requests, finishes those accepted, and releases this model: all versions of the name, or this one
   * version. Loads in progress reject with `ERR_CLOSED`. A later load under the same name is a different model. May be
   * called more than once, in any state.
   */
  unload(): Promise<void> {
    return this.#unload()
  }

  /** As {@link unload}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#unload()
  }

  /** Counts a call that failed before it became a request, if the model has served. */
  #refused(error: unknown): Promise<never> {
    return this.#target.serving.served?.counts.refuse(error) ?? Promise.reject(error)
  }

  /** @throws InferenceError `ERR_MODEL_NOT_READY` until the model has been opened once. */
  get #served(): Target {
    const { served } = this.#target.serving
    if (served === null) throw this.#notReady()
    return served
  }

  #notReady(): InferenceError {
    return notReady(this.name, this.#target.serving)
  }
}
