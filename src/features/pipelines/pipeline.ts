import { type Clock, InFlight, type KeepAlive } from '../../base/clock.ts'
import { checkInferOptions, noOptions, type CheckedOptions } from '../../options/infer-options.ts'
import type { ResolvedPipeline } from '../../options/pipeline-config.ts'
import { defaultVersion } from '../../options/method-options.ts'
import type { InferenceError } from '../../errors.ts'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import {
  type ModelCapacity,
  type ModelStatistics,
  durationOf,
  type StepStatistics,
} from '../../observe/model-statistics.ts'
import type { RejectionReason } from '../../observe/rejections.ts'
import type { RequestObservation, ObservedModel } from '../../observe/request-observer.ts'
import type { Answer, ParsedFeeds } from '../../request/infer-request.ts'
import { rejectCaller } from '../../request/participants.ts'
import { FeedParser } from '../../request/feeds.ts'
import { inputValues } from './pipeline-values.ts'
import { ServedModel } from '../served-model.ts'
import { callsOf, type BoundStep, type RunningStep, type StepCaller, type Target } from '../target.ts'
import type { PipelineGraph, GraphStep, StepPlan } from './pipeline-graph.ts'
import { PipelineRun, onlyTakers, StepReports } from './pipeline-run.ts'
import { CheckedTensors } from './checked-tensors.ts'
import { bindStep, type StepBinding } from './step-binding.ts'
import { StepErrors } from './step-errors.ts'
import type { Observers } from '../../observe/observers.ts'
import { ModelCounts } from '../../observe/model-counts.ts'
import { Throughput } from '../../schedule/estimates.ts'
import { factsOf } from '../../schedule/observed-requests.ts'

/** A loaded pipeline. It takes requests through the steps of its graph, and counts them. */
export class Pipeline implements Target {
  readonly kind = 'pipeline'
  readonly graph: PipelineGraph
  readonly labels: ReadonlyMap<string, readonly string[]>
  readonly optionalInputs: readonly string[]
  readonly targets: StepTarget[]
  /** Each request counts as a batch of its own, and all of its steps as its run. */
  readonly counts = new ModelCounts()
  readonly errors: StepErrors
  readonly stepStats: readonly StepStats[]
  readonly onlyTakers: readonly (GraphStep | null)[]
  readonly #clock: Clock
  readonly #models: PipelineOwner['models']
  /** The metadata by which requests are laid out, also while models of its steps do not join them yet. */
  readonly #laidOut: ModelMetadata
  #metadata: ModelMetadata
  readonly #givenBatchSize: number | undefined
  readonly #tensors: CheckedTensors
  readonly #parser: FeedParser
  readonly #bindings: StepBinding[]
  readonly #inFlight: InFlight
  readonly #maxInFlight: number
  readonly #observers: Observers
  readonly #observedAs: ObservedModel
  /** Requests that wait for one of the others to end. */
  readonly #line = new Set<PipelineRun>()
  readonly #begun = new PlacesOfRuns()
  readonly #throughput = new Throughput()
  /** Steps that can begin, each with its request. */
  #readyRuns: PipelineRun[] = []
  #readySteps: GraphStep[] = []
  /** The time of the answers in this turn; `null` before the first. */
  #answeredAtMs: number | null = null
  #isStarting = false
  readonly #noValues: readonly undefined[]
  /** By step: whether it runs for every request. */
  readonly #isSure: readonly boolean[]
  #count = 0

  /**
   * @param targets the models of its steps. All of them serve.
   * @throws InferenceError `ERR_MODEL_CONFIG` if an input or output of a step does not fit its tensor in the
   * graph.
   */
  constructor(
    graph: PipelineGraph,
    config: ResolvedPipeline,
    targets: StepTarget[],
    { clock, keepAlive, observers, models }: PipelineOwner,
  ) {
    const { name } = graph
    this.graph = graph
    this.targets = targets
    this.errors = new StepErrors(name)
    this.onlyTakers = onlyTakers(graph)
    this.#noValues = graph.tensors.map(() => undefined)
    this.#isSure = sureSteps(graph)
    this.stepStats = graph.steps.map((step) => new StepStats(step))
    this.#clock = clock
    this.#models = models
    this.#inFlight = new InFlight(keepAlive)
    this.#maxInFlight = config.maxInFlight
    this.#givenBatchSize = config.maxBatchSize
    this.#bindings = graph.steps.map((step) => this.#bound(step))
    this.#tensors = new CheckedTensors(graph, config, this.#bindings)
    const { maxBatchSize } = this.#tensors
    const joining = {
      rows: 'unknown',
      how: 'unknown',
      largestDifference: null,
      reason: 'each step joins requests for itself',
    } as const
    this.#laidOut = this.#metadata = Object.freeze({
      name,
      path: '',
      properties: null,
      ...this.#tensors.metadata(),
      unservableOutputs: [],
      executionProviders: [],
      maxBatchSize,
      joining,
    })
    this.#observers = observers
    this.#observedAs = {
      name,
      version: config.version ?? defaultVersion,
      metadata: this.#laidOut,
      batching: null,
    }
    this.optionalInputs = config.inputs.flatMap((input) => (input.optional ? [input.name] : []))
    this.#parser = new FeedParser(this.#laidOut, {
      optionalInputs: this.optionalInputs,
      limited: config.maxBatchSize !== undefined,
    })
    this.labels = new Map(
      config.outputs.flatMap((output) =>
        output.labels === undefined ? [] : [[output.name, output.labels] as const],
      ),
    )
  }

  get metadata(): ModelMetadata {
    const maxBatchSize = this.#batchSizeBy(({ metadata }) => metadata.maxBatchSize)
    if (maxBatchSize !== this.#metadata.maxBatchSize)
      this.#metadata = Object.freeze({ ...this.#laidOut, maxBatchSize })
    return this.#metadata
  }

  /** The smallest limit of its steps now: the verdict on a model's rows may be newer than {@link CheckedTensors.maxBatchSize}. */
  #batchSizeBy(limitOf: (model: Target) => number): number {
    if (this.#givenBatchSize !== undefined) return this.#givenBatchSize
    let least = this.#laidOut.maxBatchSize
    for (const { index, fanOut } of this.graph.steps) {
      const { served } = this.targets[index]!.serving
      if (fanOut === null) least = Math.min(least, limitOf(served ?? this.#bindings[index]!.target))
    }
    return least
  }

  async joiningKnown(): Promise<void> {
    await Promise.all(this.targets.map(({ serving }) => serving.served?.joiningKnown()))
  }

  /** See {@link Model.infer}. */
  infer(feeds: unknown, given: unknown): Promise<Answer> {
    try {
      const options = given === undefined ? noOptions : checkInferOptions(given, this.metadata)
      if (options.sequence !== undefined) throw this.errors.noSequences(options.sequence.id)
      return new Promise((resolve, reject) =>
        this.#begin(feeds, options, resolve, (reason) => rejectCaller(reason, resolve, reject)),
      ) // rejects with what it throws
    } catch (error) {
      return this.counts.refuse(error)
    }
  }

  begin<Step extends BoundStep>(
    step: Step,
    feeds: unknown,
    options: CheckedOptions,
    caller: StepCaller<Step>,
  ): RunningStep {
    return this.#begin(feeds, options, ...callsOf(caller, step), caller.observation)
  }

  /** @param parent the observation of the request that this one belongs to. Left out for a caller's request. */
  #begin(
    feeds: unknown,
    options: CheckedOptions,
    resolve: (answer: Answer) => void,
    reject: (reason: unknown) => void,
    parent?: RequestObservation | null,
  ): RunningStep {
    const { signal, splitOversized } = options
    const split = splitOversized === true && this.metadata.maxBatchSize > 0
    const parsed = this.counts.reading(() => this.#parser.parse(feeds, split))
    const values = inputValues(this.#laidOut, parsed, this.#noValues)
    const reports = options.report ? new StepReports(++this.#count) : null
    const nowMs = this.#clock.nowMs()
    const run = new PipelineRun(this, values, parsed.rows, options, nowMs, reports, resolve, reject)
    if (this.#observers.observer !== null) run.observation = this.#observe(parsed, options, nowMs, parent)
    if (signal?.aborted) {
      this.counts.refused('cancelled')
      run.settled = true
      run.observation?.ended(false, undefined, null)
      reject(signal.reason)
      return run
    }
    const isKnown = options.deadlineMs !== undefined && !parsed.data.includes(null) // otherwise inputs may be missing
    const refusal = isKnown ? this.#refusal(run, options.deadlineMs!) : null
    if (refusal !== null) {
      run.settled = true
      this.counts.failed('deadline', 0)
      run.observation?.ended(false, refusal, null)
      reject(refusal)
      return run
    }
    if (signal !== undefined) run.listen(signal)
    if (this.#begun.size < this.#maxInFlight) this.#start(run, nowMs)
    else this.#wait(run)
    return run
  }

  /**
   * The refusal of a request that its steps cannot answer in time, as each of them would refuse it later;
   * `null` if there is enough time.
   */
  #refusal({ rows, options }: PipelineRun, deadlineMs: number): InferenceError | null {
    const estimatedMs = this.#estimatedMs(this.graph.planFor(options.outputs), rows, options.priority)
    return estimatedMs > deadlineMs ? this.errors.hopeless(deadlineMs, estimatedMs, options.requestId) : null
  }

  estimatedMs(rows: number, priority: number | undefined): number {
    return this.#estimatedMs(this.graph.planFor(null), rows, priority)
  }

  /** The wait for a place, and the sum over the steps that always run; for a step that fans out, at least one row counts. */
  #estimatedMs({ steps }: StepPlan, rows: number, priority: number | undefined): number {
    let sumMs = this.#placeInMs
    for (const { index, fanOut } of steps)
      if (this.#isSure[index]!)
        sumMs += this.targets[index]!.serving.served?.estimatedMs(fanOut === null ? rows : 1, priority) ?? 0
    return sumMs
  }

  /** How long a new request waits for one of the others to end, in milliseconds. */
  get #placeInMs(): number {
    return this.#begun.size < this.#maxInFlight ? 0 : (this.#line.size + 1) * this.#throughput.msPerRequest
  }

  /**
   * Begins the observation of a request.
   *
   * @param parent `null` if that is not observed. Left out for a caller's request, and for a function that is run for
   * another model.
   */
  #observe(
    feeds: ParsedFeeds,
    options: CheckedOptions,
    atMs: number,
    parent: RequestObservation | null | undefined = this.#observers.parent,
  ): RequestObservation | null {
    if (parent === null) return null
    const facts = factsOf(feeds, options, atMs)
    return parent === undefined
      ? this.#observers.observer!.begun(this.#observedAs, facts)
      : parent.child(this.#observedAs, facts)
  }

  drained(): Promise<void> {
    return this.#inFlight.drained()
  }

  destroy(): void {
    for (const run of [...this.#line, ...this.#begun.all])
      run.cancel(this.errors.closed(run.options.requestId), 'closed')
  }

  get largestBatch(): number {
    return this.#batchSizeBy(({ largestBatch }) => largestBatch)
  }

  get stepCount(): number {
    return this.graph.steps.length
  }

  /** The spare capacity of the models of its steps: the smallest of theirs. */
  capacity(): ModelCapacity {
    const each = this.targets.map(({ serving }, step) =>
      forSeveral(serving.served?.capacity() ?? noCapacity, Math.max(1, this.stepStats[step]!.rowsPerRequest)),
    )
    const least = (figure: 'instances' | 'free' | 'requestsPerSecond') =>
      Math.min(...each.map((capacity) => capacity[figure]))
    const isKnown = each.every(({ estimatedMs }) => estimatedMs > 0)
    return {
      maxBatchSize: this.metadata.maxBatchSize,
      waiting: this.#line.size,
      running: this.#begun.size,
      instances: least('instances'),
      free: least('free'),
      requestsPerSecond: least('requestsPerSecond'),
      estimatedMs: isKnown ? each.reduce((sum, { estimatedMs }) => sum + estimatedMs, this.#placeInMs) : 0,
    }
  }

  room(priority: number | undefined): number {
    return Math.min(...this.targets.map(({ serving }) => serving.served?.room(priority) ?? Infinity))
  }

  stats(): ModelStatistics {
    return { ...this.counts.snapshot(this.#line.size), steps: this.stepStats.map((step) => step.snapshot()) }
  }

  // ── for its requests ──
  nowMs(): number {
    return this.#clock.nowMs()
  }

  answeredAtMs(): number {
    if (this.#answeredAtMs !== null) return this.#answeredAtMs
    queueMicrotask(this.#goOn)
    return (this.#answeredAtMs = this.#clock.nowMs())
  }

  bind(step: GraphStep, requestId: string | undefined): StepBinding {
    const { index } = step
    const binding = this.#bindings[index]!
    if (!isServed(this.targets[index]!.serving)) this.#findAgain(step)
    const { serving } = this.targets[index]!
    if (!isServed(serving)) throw this.errors.notServed(step, serving, requestId)
    if (serving.served === binding.target && binding.target.metadata === binding.metadata) return binding
    const renewed = this.#bound(step)
    this.#tensors.check(step, renewed)
    this.#bindings[index] = renewed
    return renewed
  }

  #bound(step: GraphStep): StepBinding {
    const { served, version } = this.targets[step.index]!.serving
    return bindStep(this.graph.name, step, served!, version)
  }

  /** A failed model loses its name when it cannot be reloaded; a model loaded later is another target. */
  #findAgain({ index, model, version }: GraphStep): void {
    try {
      this.targets[index] = this.#models.findTarget(model, version)
    } catch {
      // It was not reloaded yet.
    }
  }

  later(run: PipelineRun, step: GraphStep): void {
    // Later, so that all requests of an answered batch continue together, outside of the model's answering
    // code.
    this.answeredAtMs()
    this.#readyRuns.push(run)
    this.#readySteps.push(step)
  }

  ended(run: PipelineRun, nowMs: number, answer: Answer | null, why: RejectionReason, reason: unknown): void {
    if (run.place !== -1) this.#begun.remove(run)
    else if (this.#line.delete(run)) this.#stopTimer(run)
    const { begunAtMs, madeAtMs, observation } = run
    if (answer === null) this.counts.failed(why, nowMs - madeAtMs)
    else {
      const times = { inputMs: 0, inferMs: nowMs - begunAtMs, outputMs: 0 }
      this.#throughput.finished(1, begunAtMs, nowMs)
      this.counts.ran(run.rows, times, false)
      this.counts.answered(madeAtMs, begunAtMs, times, nowMs)
      observation?.passed?.(begunAtMs, nowMs)
    }
    observation?.ended(answer !== null, why === 'cancelled' ? undefined : reason, answer)
    if (this.#line.size > 0) this.#startWaiting(nowMs)
    this.#update()
  }

  #startWaiting(nowMs: number): void {
    if (this.#isStarting) return // called by a request that ended as soon as it began
    this.#isStarting = true
    for (const run of this.#line) {
      if (this.#begun.size >= this.#maxInFlight) break
      this.#line.delete(run)
      this.#stopTimer(run)
      this.#start(run, nowMs)
    }
    this.#isStarting = false
  }

  #start(run: PipelineRun, nowMs: number): void {
    this.#begun.add(run)
    this.#update()
    run.start(nowMs)
  }

  #wait(run: PipelineRun): void {
    const { timeoutMs = Infinity, deadlineMs = Infinity, requestId } = run.options
    const limitMs = Math.min(timeoutMs, deadlineMs)
    this.#line.add(run)
    this.#update()
    if (limitMs === Infinity) return
    const error = () =>
      timeoutMs <= deadlineMs
        ? this.errors.timedOut(timeoutMs, this.#maxInFlight, requestId)
        : this.errors.late(this.graph.steps[0]!, deadlineMs, limitMs, requestId)
    run.timer = this.#clock.setTimer(
      () => run.cancel(error(), timeoutMs <= deadlineMs ? 'timeout' : 'deadline'),
      limitMs,
    )
  }

  #stopTimer(run: PipelineRun): void {
    if (run.timer !== null) this.#clock.clearTimer(run.timer)
    run.timer = null
  }

  #update(): void {
    this.#inFlight.update(this.#line.size + this.#begun.size)
  }

  readonly #goOn = (): void => {
    const [runs, steps] = [this.#readyRuns, this.#readySteps]
    this.#answeredAtMs = null
    if (runs.length === 0) return
    this.#readyRuns = []
    this.#readySteps = []
    const nowMs = this.#clock.nowMs()
    let notified: ServedModel | null = null
    for (let index = 0; index < runs.length; index++) {
      const step = steps[index]!
      const { served } = this.targets[step.index]!.serving
      const model = served instanceof ServedModel ? served : null
      if (model !== notified) model?.scheduler.answered(nowMs) // nothing else will come
      notified = model
      runs[index]!.begin(step, nowMs)
    }
  }
}

/** By step: whether neither it nor any that it depends on has a condition. */
function sureSteps(graph: PipelineGraph): boolean[] {
  const isSure = graph.steps.map(() => true)
  const unsure = graph.steps.filter(({ when }) => when !== null)
  for (const { index, outputs } of unsure) {
    if (!isSure[index]!) continue
    isSure[index] = false
    for (const { tensor } of outputs)
      for (const next of graph.tensors[tensor]!.awaitedBy) unsure.push(graph.steps[next]!)
  }
  return isSure
}

/** Where the requests of a step go: a name, or one version of it. */
export interface StepTarget {
  readonly name: string
  /** Changes when the model is loaded again. */
  readonly serving: StepServing
}

/** What is loaded as the model of a step. */
interface StepServing {
  readonly version: number
  readonly state: string
  readonly failure: string | null
  /** `null` until it serves. */
  readonly served: Target | null
}

/**
 * Whether steps' requests are accepted. A draining model still accepts them, as the pipelines that use it
 * drain first.
 */
function isServed({ state, served }: StepServing): boolean {
  return served !== null && (state === 'ready' || state === 'draining')
}

/** Of a model that is reopened after a failure. */
const noCapacity: ModelCapacity = {
  instances: 0,
  maxBatchSize: 0,
  waiting: 0,
  running: 0,
  free: 0,
  requestsPerSecond: 0,
  estimatedMs: 0,
}

/** @param requests to the model per request of the pipeline. */
function forSeveral(capacity: ModelCapacity, requests: number): ModelCapacity {
  return requests === 1
    ? capacity
    : {
        ...capacity,
        free: Math.floor(capacity.free / requests),
        requestsPerSecond: capacity.requestsPerSecond / requests,
      }
}

/** The engine of a pipeline. */
interface PipelineOwner {
  readonly clock: Clock
  readonly keepAlive: KeepAlive
  readonly observers: Observers
  readonly models: {
    /** @throws InferenceError `ERR_MODEL_NOT_FOUND`. */
    findTarget(name: string, version: number | undefined): StepTarget
  }
}

/** An unordered set of requests. Each stores its index, so that it can be removed in constant time. */
class PlacesOfRuns {
  readonly #runs: PipelineRun[] = []

  get size(): number {
    return this.#runs.length
  }

  get all(): readonly PipelineRun[] {
    return this.#runs
  }

  add(run: PipelineRun): void {
    run.place = this.#runs.push(run) - 1
  }

  remove(run: PipelineRun): void {
    const last = this.#runs.pop()!
    if (last !== run) {
      this.#runs[run.place] = last
      last.place = run.place
    }
    run.place = -1
  }
}

/** Counts the outcomes of one step of a pipeline. */
class StepStats {
  readonly #step: GraphStep
  successes = 0
  successMs = 0
  failures = 0
  failMs = 0
  /** Those that had begun when their request ended. */
  cancelled = 0
  skipped = 0
  /** Requests that fanned out, and their rows. */
  fanned = 0
  rows = 0

  constructor(step: GraphStep) {
    this.#step = step
  }

  /** Requests of its model per request of the step: 1, or the average number of rows. */
  get rowsPerRequest(): number {
    return this.fanned === 0 ? 1 : this.rows / this.fanned
  }

  snapshot(): StepStatistics {
    const { name, model } = this.#step
    return {
      step: name,
      model,
      success: durationOf(this.successes, this.successMs),
      fail: durationOf(this.failures, this.failMs),
      cancelledCount: this.cancelled,
      skippedCount: this.skipped,
      rowCount: this.rows,
    }
  }
}
