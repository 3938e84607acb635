import { warnOfLabels } from './classification.ts'
import { pipelineError, type ResolvedPipeline } from '../options/pipeline-config.ts'
import type { ScaleOptions } from '../options/method-options.ts'
import type { EngineResources } from './engine-resources.ts'
import { InferenceError, invalidArgument } from '../errors.ts'
import { closedWhileLoading } from './load-failure.ts'
import { Loaded, notReady, type LoadFor } from './loaded.ts'
import { Pipeline, type StepTarget } from '../features/pipelines/pipeline.ts'
import { PipelineGraph } from '../features/pipelines/pipeline-graph.ts'
import { untilAborted } from '../request/abort-watch.ts'

/**
 * The life of one pipeline in an engine: finds the models of its steps, checks that they fit, and holds them while it
 * serves.
 */
export class LoadedPipeline extends Loaded<Pipeline> {
  readonly config: ResolvedPipeline
  /** Fires when the load is cancelled. */
  readonly #unwanted = new AbortController()

  constructor(name: string, config: ResolvedPipeline, engine: EngineResources, loadFor: LoadFor) {
    super(name, config.version, engine, loadFor)
    this.config = config
  }

  protected async open(): Promise<void> {
    const { uses } = this.engine
    try {
      const graph = new PipelineGraph(this.name, this.config)
      uses.hold(this, this.name, graph.steps)
      this.#checkCircle(graph)
      await Promise.resolve() // models requested in the same turn are loading by then
      const targets: StepTarget[] = []
      for (const { index } of graph.steps) targets.push(await this.#find(graph, index))
      const pipeline = new Pipeline(graph, this.config, targets, this.engine)
      await this.loadFor.accept?.()
      this.#checkWanted()
      this.served = pipeline
      warnOfLabels(pipeline.metadata, pipeline.labels)
      this.become('ready')
    } catch (error) {
      uses.release(this)
      if (this.state === 'loading') this.fail((error as Error).message)
      throw error
    }
  }

  /** The model of a step, once it is loaded. */
  async #find({ steps }: PipelineGraph, index: number): Promise<StepTarget> {
    const { model, version, name } = steps[index]!
    const option = version === undefined ? 'model' : 'version'
    try {
      const target = this.engine.models.findTarget(model, version, this.name)
      if (target.serving.state === 'loading') await untilAborted(target.loaded(), this.#unwanted.signal)
      this.#checkWanted()
      if (target.serving.state === 'ready') return target
      throw notReady(model, target.serving)
    } catch (cause) {
      if (!(cause instanceof InferenceError) || this.state !== 'loading') throw cause
      const isMissing = cause.code === 'ERR_MODEL_NOT_FOUND'
      const [expected, hint] = isMissing
        ? [String(cause.expected), 'Load it first']
        : ['a model that is ready', cause.message]
      throw invalidArgument(`steps[${index}].${option}`, expected, cause.received, {
        code: cause.code,
        model: this.name,
        step: name,
        hint,
        cause,
      })
    }
  }

  #checkCircle({ steps }: PipelineGraph): void {
    const circle = this.engine.uses.circle(this.name)
    if (circle === null) return
    const step = steps.findIndex(({ model }) => model === circle[1])
    throw pipelineError(
      this.name,
      `steps[${step}].model`,
      'a model that does not have this pipeline as a step itself',
      circle.join(' -> '),
    )
  }

  #checkWanted(): void {
    if (this.state !== 'loading') throw closedWhileLoading(this.name)
  }

  scale({ count }: ScaleOptions): Promise<void> {
    return Promise.reject(
      invalidArgument('options.count', 'a model with instances of its own', count, {
        model: this.name,
        hint: 'Scale the models of its steps',
      }),
    )
  }

  protected stopOpening(): void {
    this.#unwanted.abort(closedWhileLoading(this.name))
  }

  protected async release(): Promise<void> {
    this.engine.uses.release(this)
  }
}
