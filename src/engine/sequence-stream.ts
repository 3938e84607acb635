import {
  checkInferOptions,
  isSequenceId,
  sequenceIdShown,
  type InferOptions,
  type ReportedOutputs,
  type SequenceId,
} from '../options/infer-options.ts'
import type { AnySignature, ModelSignature, OutputName, WantedOutputs } from '../options/model-signature.ts'
import { readOptions } from '../options/plain-options.ts'
import { InferenceError, invalidArgument } from '../errors.ts'
import type { ServedModel } from '../features/served-model.ts'
import { noSequences } from '../features/target.ts'
import type { ModelVersion, NamedModel } from './model-registry.ts'
import type { Sequences } from '../features/sequences/sequences.ts'
import type { Loaded } from './loaded.ts'
import type { Answer } from '../request/infer-request.ts'

/** Options of a request of a {@link SequenceStream}: those of `infer()` without the sequence options. */
export type StreamInferOptions<Output extends string = string, Report extends boolean = false> = Omit<
  InferOptions<Output, Report>,
  'sequenceId' | 'sequenceStart' | 'sequenceEnd' | 'splitOversized'
>

/** Options of `model.sequence()`. */
export interface StreamOptions {
  /**
   * Its correlation id. If another open sequence has the id, that one ends when this stream begins. Default: an id that
   * no open sequence has.
   */
  id?: SequenceId
}

/**
 * One sequence of requests, made by `model.sequence()`. Requests run one after the other in the order of their calls,
 * so there is no need to await each one. A request that fails leaves the state as it was, and the next one continues
 * from there.
 *
 * The stream belongs to the model that served when it began. Its requests reject with `ERR_SEQUENCE_ENDED` once that
 * model is replaced, or after `maxSequenceIdleMs` without a request.
 */
export class SequenceStream<M extends ModelSignature = AnySignature> {
  /** Its correlation id, unique among the open sequences of the model. */
  readonly id: SequenceId
  readonly #target: NamedModel | ModelVersion
  readonly #loaded: Loaded
  readonly #served: ServedModel
  readonly #sequences: Sequences
  #started = false
  #end: Promise<unknown> | null = null

  /** @internal */
  static of<M extends ModelSignature>(
    target: NamedModel | ModelVersion,
    options: StreamOptions,
  ): SequenceStream<M> {
    const { name: model, serving } = target
    const { served } = serving
    const { id } = readOptions('options', options, ['id'], { model })
    if (served?.kind !== 'model' || served.sequences === null) throw noSequences(model, served)
    const { sequences } = served
    if (id !== undefined && !isSequenceId(id))
      throw invalidArgument('options.id', sequenceIdShown, id, { model })
    if (id !== undefined) sequences.checkId(id)
    return new SequenceStream<M>(target, served, sequences, id ?? sequences.generateId())
  }

  private constructor(
    target: NamedModel | ModelVersion,
    served: ServedModel,
    sequences: Sequences,
    id: SequenceId,
  ) {
    this.#target = target
    this.#loaded = target.serving
    this.#served = served
    this.#sequences = sequences
    this.id = id
  }

  /**
   * Runs the next request of the sequence; the first begins it.
   *
   * @throws InferenceError as `model.infer()`, and `ERR_SEQUENCE_ENDED` once the sequence has ended.
   */
  infer<Name extends OutputName<M> = never>(
    feeds: M['inputs'],
    options: StreamInferOptions<Name, boolean> & { report: true },
  ): Promise<ReportedOutputs<WantedOutputs<M, Name>>>
  infer<Name extends OutputName<M> = never>(
    feeds: M['inputs'],
    options?: StreamInferOptions<Name>,
  ): Promise<WantedOutputs<M, Name>>
  infer(feeds: M['inputs'], options?: StreamInferOptions<string, boolean>): Promise<Answer> {
    return this.#infer(feeds, options, false)
  }

  /**
   * Ends the sequence after the requests called so far. With `feeds`, runs a last request and answers it; without,
   * nothing more runs and the model is not notified. May be called again, and after the sequence has ended by itself. A
   * call with invalid feeds or options does not end the sequence.
   *
   * @throws InferenceError as {@link infer}, with `feeds`.
   */
  end<Name extends OutputName<M> = never>(
    feeds: M['inputs'],
    options?: StreamInferOptions<Name>,
  ): Promise<WantedOutputs<M, Name>>
  end(): Promise<void>
  end(feeds?: M['inputs'], options?: StreamInferOptions): Promise<unknown> {
    if (feeds !== undefined) return this.#infer(feeds, options, true)
    this.#end ??= this.#started ? this.#sequences.end(this.id, this) : Promise.resolve()
    return this.#end.then(() => {})
  }

  /** As {@link end} without feeds. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.end()
  }

  #infer(feeds: unknown, options: object | undefined, end: boolean): Promise<Answer> {
    const { state } = this.#loaded
    try {
      if (this.#end !== null) throw this.#ended('has ended')
      if (this.#target.serving !== this.#loaded && this.#started)
        throw this.#ended('began on a model that has since been replaced')
      if (state !== 'ready') throw this.#ended(`has ended, as its model is ${state}`)
      const { joining, metadata } = this.#served.scheduler
      const checked =
        options === undefined
          ? joining.plainOptions
          : checkInferOptions(options, metadata, joining.shaped.offered)
      const { sequence } = checked
      if (sequence !== undefined)
        throw invalidArgument('options.sequenceId', 'to be omitted, as the stream has one', sequence.id, {
          model: this.#target.name,
        })
      const answer = this.#sequences.infer(feeds, checked, { id: this.id, start: !this.#started, end }, this)
      this.#started = true
      if (end) this.#end = answer.catch(() => {}) // the caller gets the error
      return answer
    } catch (error) {
      return this.#served.counts.refuse(error)
    }
  }

  #ended(reason: string): InferenceError {
    const message = `Sequence ${String(this.id)} of model '${this.#target.name}' ${reason}; begin another with model.sequence().`
    return new InferenceError('ERR_SEQUENCE_ENDED', message, { model: this.#target.name })
  }
}
