import { outsideContext } from '../../base/async-context.ts'
import { classify, classifyAlong, type Classification } from '../../engine/classification.ts'
import type { InferOptions, ReportedOutputs } from '../../options/infer-options.ts'
import type {
  AnyOutputs,
  AnySignature,
  ModelSignature,
  OutputName,
  WantedOutputs,
} from '../../options/model-signature.ts'
import type { UnloadOptions } from '../../options/method-options.ts'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import type { ModelStatistics } from '../../observe/model-statistics.ts'
import type { InferManyOptions, InferManyResult, ItemSource } from '../../request/infer-many.ts'

/** The part of an engine that a {@link RemoteModel} uses. */
export interface RemoteModelOwner {
  infer(name: string, feeds: unknown, options: unknown): Promise<unknown>
  call(method: string, ...args: unknown[]): Promise<unknown>
  /** How many more requests would be accepted now. */
  readonly room: number
}

const defaultInFlight = 128

/**
 * A model of another process: whichever is loaded there under its name at the time of a call. It is looked up
 * at its first use.
 */
export class RemoteModel<M extends ModelSignature = AnySignature> {
  /** The name it is loaded under. */
  readonly name: string
  /** The version that answers; `undefined` for the newest ready one. */
  readonly version: number | undefined
  readonly #owner: RemoteModelOwner

  /** @internal */
  constructor(name: string, version: number | undefined, owner: RemoteModelOwner) {
    this.name = name
    this.version = version
    this.#owner = owner
  }

  /**
   * Like {@link Model.infer}. The data of `feeds` is read during the call, unless it has to connect first.
   *
   * @throws InferenceError as that does; `ERR_MODEL_NOT_FOUND`; `ERR_QUEUE_FULL` if this process has too many
   * requests in flight; `ERR_DISCONNECTED`.
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
  infer(feeds: M['inputs'], options?: InferOptions<string, boolean>): Promise<unknown> {
    return this.#owner.infer(
      this.name,
      feeds,
      this.version === undefined ? options : { ...options, version: this.version },
    )
  }

  /** Like {@link Model.inferMany}. */
  async *inferMany<Name extends OutputName<M> = never>(
    source: ItemSource<M['inputs']>,
    options?: InferManyOptions<Name>,
  ): AsyncGenerator<InferManyResult<WantedOutputs<M, Name>>, void, undefined> {
    const { inferMany } = await outsideContext(() => import('../../request/infer-many.ts')) // saves memory
    const streamed = {
      name: this.name,
      start: () => ({ defaultInFlight, room: () => this.#owner.room }),
      infer: (feeds: M['inputs'], each: InferOptions) => this.infer(feeds, each as InferOptions<Name>),
    }
    yield* inferMany(streamed, source, options)
  }

  /** Like {@link Model.metadata}. */
  metadata(): Promise<ModelMetadata> {
    return this.#owner.call('metadata', this.name, this.version) as Promise<ModelMetadata>
  }

  /** Like {@link Model.stats}: requests of all processes count. */
  stats(): Promise<ModelStatistics> {
    return this.#owner.call('modelStats', this.name, this.version) as Promise<ModelStatistics>
  }

  /**
   * Like {@link Model.classification}, with the labels that the model has there now.
   *
   * @throws InferenceError as that does; `ERR_MODEL_NOT_FOUND` and `ERR_DISCONNECTED`.
   */
  classification(
    outputs: Partial<AnyOutputs>,
    count?: number,
    output?: OutputName<M>,
  ): Promise<Classification[][]>
  classification(
    outputs: Partial<AnyOutputs>,
    count: number | undefined,
    output: OutputName<M> | undefined,
    axis: number,
  ): Promise<Classification[][][]>
  async classification(
    outputs: Partial<AnyOutputs>,
    count = 1,
    output?: OutputName<M>,
    axis?: number,
  ): Promise<Classification[][] | Classification[][][]> {
    const { metadata, labels } = (await this.#owner.call('classes', this.name, this.version)) as {
      metadata: ModelMetadata
      labels: readonly [string, readonly string[]][]
    }
    const classified = { outputs, count, output }
    return axis === undefined
      ? classify(metadata, new Map(labels), classified)
      : classifyAlong(axis, metadata, new Map(labels), classified)
  }

  /** Unloads the model there, for all clients. */
  async unload(): Promise<void> {
    const options: UnloadOptions = this.version === undefined ? {} : { version: this.version }
    await this.#owner.call('unload', this.name, options)
  }
}
