import { warnOfLabels } from './classification.ts'
import type { ResolvedPipeline } from '../options/pipeline-config.ts'
import type { ScaleOptions } from '../options/method-options.ts'
import { InferenceError, invalidArgument } from '../errors.ts'
import { closedWhileLoading, notReady } from './load-failure.ts'
import type { Loaded, Opened } from './loaded.ts'
import { Pipeline, type StepTarget } from '../features/pipelines/pipeline.ts'
import { PipelineGraph } from '../features/pipelines/pipeline-graph.ts'
import { untilAborted } from '../base/abort-watch.ts'

/** The steps of a pipeline: finds their models, checks that they fit, and holds them while it serves. */
export class LoadedPipeline implements Opened {
  readonly origin = null
  readonly workers = []
  readonly leases = null
  readonly #loaded: Loaded
  readonly #config: ResolvedPipeline
  /** Fires when the load is cancelled. */
  readonly #unwanted = new AbortController()

  constructor(loaded: Loaded, config: ResolvedPipeline) {
    this.#loaded = loaded
    this.#config = config
  }

  async open(): Promise<void> {
    const loaded = this.#loaded
    const { name, engine } = loaded
    const graph = new PipelineGraph(name, this.#config)
    const targets: StepTarget[] = []
    for (const { index } of graph.steps) targets.push(await this.#find(graph, index))
    const pipeline = new Pipeline(graph, this.#config, targets, engine)
    await loaded.loadFor.accept?.()
    this.#checkWanted()
    loaded.served = pipeline
    warnOfLabels(pipeline.metadata, pipeline.labels)
    loaded.become('ready')
  }

  /** The model of a step, once it is loaded. */
  async #find({ steps }: PipelineGraph, index: number): Promise<StepTarget> {
    const { model, version, name } = steps[index]!
    const loaded = this.#loaded
    const option = version === undefined ? 'model' : 'version'
    try {
      const target = loaded.engine.models.findTarget(model, version, loaded.name)
      if (target.serving.state === 'loading') await untilAborted(target.loaded(), this.#unwanted.signal)
      this.#checkWanted()
      if (target.serving.state === 'ready') return target
      throw notReady(model, target.serving)
    } catch (cause) {
      if (!(cause instanceof InferenceError) || loaded.state !== 'loading') throw cause
      const isMissing = cause.code === 'ERR_MODEL_NOT_FOUND'
      const [expected, hint] = isMissing
        ? [String(cause.expected), 'Load it first']
        : ['a model that is ready', cause.message]
      throw invalidArgument(`steps[${index}].${option}`, expected, cause.received, {
        code: cause.code,
        model: loaded.name,
        step: name,
        hint,
        cause,
      })
    }
  }

  #checkWanted(): void {
    if (this.#loaded.state !== 'loading') throw closedWhileLoading(this.#loaded.name)
  }

  scale({ count }: ScaleOptions): Promise<void> {
    return Promise.reject(
      invalidArgument('options.count', 'a model with instances of its own', count, {
        model: this.#loaded.name,
        hint: 'Scale the models of its steps',
      }),
    )
  }

  stopOpening(): void {
    this.#unwanted.abort(closedWhileLoading(this.#loaded.name))
  }

  stopChanging(): void {}

  async release(): Promise<void> {
    this.#loaded.engine.uses.release(this.#loaded)
  }
}
