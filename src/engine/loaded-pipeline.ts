import { warnOfLabels } from './classification.ts'
import { pipelineError, type ResolvedPipeline } from '../options/pipeline-config.ts'
import { defaultVersion, type ScaleOptions } from '../options/method-options.ts'
import type { EngineServices } from './engine-resources.ts'
import { InferenceError, invalidArgument } from '../errors.ts'
import { ModelLeases } from '../features/leases/leases.ts'
import { closedWhileLoading } from './load-failure.ts'
import { notReady, type Loadable, type ModelState } from './model-target.ts'
import { Pipeline } from '../features/pipelines/pipeline.ts'
import { PipelineGraph } from '../features/pipelines/pipeline-graph.ts'
import type { StepTarget } from '../features/pipelines/step-target.ts'
import { untilAborted } from '../request/abort-watch.ts'

/**
 * The life of one pipeline in an engine: finds the models of its steps, checks that they fit, and holds them while it
 * serves.
 */
export class LoadedPipeline implements Loadable {
  readonly name: string
  readonly version: number
  state: ModelState = 'loading'
  failure: string | null = null
  pipeline: Pipeline | null = null
  readonly scheduler = null
  readonly parser = null
  readonly responses = null
  readonly sequences = null
  readonly autoTune = null
  readonly images = null
  readonly leases: ModelLeases
  readonly splitsOversized = false
  readonly optionalInputs: readonly string[]
  readonly origin = null
  readonly workers = []
  readonly config: ResolvedPipeline
  readonly #services: EngineServices
  /** Fires when the load is cancelled. */
  readonly #unwanted = new AbortController()
  #loading: Promise<void> = Promise.resolve()
  #closing: Promise<void> | null = null

  constructor(name: string, config: ResolvedPipeline, services: EngineServices) {
    this.name = name
    this.version = config.version ?? defaultVersion
    this.leases = new ModelLeases(() => {
      throw invalidArgument('lease', 'a model', 'a pipeline', {
        model: name,
        hint: 'Use infer() for this pipeline, or lease rows of the models of its steps',
      })
    })
    this.optionalInputs = config.inputs.flatMap((input) => (input.optional ? [input.name] : []))
    this.config = config
    this.#services = services
  }

  load(): Promise<void> {
    const loading = this.#services.keepAlive.during(this.#load())
    this.#loading = loading.catch(() => {})
    return loading
  }

  async #load(): Promise<void> {
    const { uses, accept } = this.#services
    try {
      const graph = new PipelineGraph(this.name, this.config)
      uses.hold(this, this.name, graph.steps)
      this.#checkCircle(graph)
      await Promise.resolve() // models requested in the same turn are loading by then
      const targets: StepTarget[] = []
      for (const { index } of graph.steps) targets.push(await this.#find(graph, index))
      const pipeline = new Pipeline(graph, this.config, targets, this.#services)
      await accept?.()
      this.#checkWanted()
      this.pipeline = pipeline
      warnOfLabels(pipeline.metadata, pipeline.labels)
      this.#become('ready')
    } catch (error) {
      uses.release(this)
      if (this.state === 'loading') this.#fail((error as Error).message)
      throw error
    }
  }

  /** The model of a step, once it is loaded. */
  async #find({ steps }: PipelineGraph, index: number): Promise<StepTarget> {
    const { model, version, name } = steps[index]!
    const option = version === undefined ? 'model' : 'version'
    try {
      const target = this.#services.find(model, version, this.name)
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
    const circle = this.#services.uses.circle(this.name)
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

  abortLoad(reason: string): void {
    this.#fail(reason)
  }

  refuse(): void {
    if (this.state === 'ready') this.#become('draining')
  }

  close(destroy: boolean, successor?: Loadable): Promise<void> {
    if (destroy) this.pipeline?.destroy()
    this.leases.end(successor?.leases) // of models that were replaced
    this.#closing ??= this.#services.keepAlive.during(this.#close())
    return this.#closing
  }

  async #close(): Promise<void> {
    if (this.state !== 'failed') this.#become('draining')
    await this.#loading
    await this.pipeline?.drained()
    this.#services.uses.release(this)
    this.#become('closed')
  }

  #fail(reason: string): void {
    if (this.state === 'closed') return
    this.failure = reason
    this.#become('failed')
  }

  #become(state: Exclude<ModelState, 'loading'>): void {
    if (state === this.state) return
    if (this.state === 'loading' && state !== 'ready') this.#unwanted.abort(closedWhileLoading(this.name))
    this.state = state
    const { name: model, version, failure } = this
    this.#services.changed({
      type: state,
      model,
      version,
      ...(state === 'failed' ? { reason: failure! } : {}),
    })
  }
}
