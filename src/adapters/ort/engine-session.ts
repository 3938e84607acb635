import type { InferenceSession, InferenceSessionHandler, OnnxValue, SessionHandler } from 'onnxruntime-common'
import { InferenceError } from '../../errors.ts'
import type { FeedValue } from '../../options/model-signature.ts'
import { checkRunOptions } from './check-options.ts'
import { intoGiven } from './given-outputs.ts'
import { warnIgnored } from './ignored.ts'
import { sessionMetadata } from './session-metadata.ts'
import type { HeldModel } from './session-models.ts'

/** Sessions that were dropped without `release()`. */
const dropped = new FinalizationRegistry<HeldModel>((held) => {
  held.release().catch(() => {}) // nobody is left to be told
})

/** What an `InferenceSession` of onnxruntime-common does its work by: a model of an engine. */
export class EngineSession implements InferenceSessionHandler {
  readonly inputNames: readonly string[]
  readonly outputNames: readonly string[]
  readonly inputMetadata: readonly InferenceSession.ValueMetadata[]
  readonly outputMetadata: readonly InferenceSession.ValueMetadata[]
  #held: HeldModel | null

  /** @throws InferenceError `ERR_MODEL_LOAD` for elements that no tensor of onnxruntime-common has. */
  constructor(held: HeldModel) {
    const { name, metadata } = held.model
    this.inputMetadata = sessionMetadata(name, metadata.inputs)
    this.outputMetadata = sessionMetadata(name, metadata.outputs)
    this.inputNames = this.inputMetadata.map((input) => input.name)
    this.outputNames = this.outputMetadata.map((output) => output.name)
    this.#held = held
    dropped.register(this, held, this)
  }

  async run(
    feeds: SessionHandler.FeedsType,
    fetches: SessionHandler.FetchesType,
    options: InferenceSession.RunOptions,
  ): Promise<SessionHandler.ReturnType> {
    if (this.#held === null) throw new Error('Session already disposed.')
    refuseTermination(options)
    checkRunOptions(options)
    warnOfIgnored(options)
    const { model } = this.#held
    const outputs = Object.keys(fetches)
    this.#checkTensors(outputs)
    const answers = await model.infer(
      this.#ownFeeds(feeds),
      outputs.length === this.outputNames.length ? undefined : { outputs },
    )
    return intoGiven(model.name, answers as Record<string, OnnxValue>, fetches)
  }

  /** What runs is finished first. Once it is released nothing happens any more. */
  async dispose(): Promise<void> {
    const held = this.#held
    this.#held = null
    dropped.unregister(this)
    await held?.release()
  }

  /** Does nothing, as that of onnxruntime-node: the session option `enableProfiling` begins it. */
  startProfiling(): void {}

  endProfiling(): void {
    warnIgnored(
      'endProfiling()',
      "the profile of a session with 'enableProfiling' is written when it is released.",
    )
  }

  /** More than the model takes may be given, as to onnxruntime-node. */
  #ownFeeds(feeds: SessionHandler.FeedsType): Record<string, FeedValue> {
    return Object.fromEntries(this.inputNames.map((name) => [name, feeds[name] as FeedValue]))
  }

  #checkTensors(outputs: readonly string[]): void {
    const other = this.outputMetadata.find(({ name, isTensor }) => !isTensor && outputs.includes(name))
    if (other === undefined) return
    const message = `output '${other.name}' is no tensor, which a session cannot answer with. Name the outputs that are wanted (run(feeds, ['...'])), or use Model.infer().`
    throw new InferenceError('ERR_INVALID_ARG', message, { name: other.name })
  }
}

function refuseTermination(options: InferenceSession.RunOptions): void {
  if (options.terminate === true)
    throw new InferenceError(
      'ERR_INVALID_ARG',
      "run option 'terminate': expected to be left out, received true. Model.infer() takes a signal by which runs are stopped.",
      { name: 'terminate' },
    )
}

function warnOfIgnored(options: InferenceSession.RunOptions): void {
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined && name !== 'terminate')
      warnIgnored(
        `The run option '${name}'`,
        'requests share runs. Options of all runs of a model are its runOptions (createOrt).',
      )
  }
}
