import type { Clock } from '../../base/clock.ts'
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
import { type RejectionReason, refusalOf } from '../../observe/rejections.ts'
import type { RequestObservation, ObservedModel } from '../../observe/request-observer.ts'
import { rejectCaller, type Answer, type ParsedFeeds } from '../../request/infer-request.ts'
import { FeedParser } from '../../request/feeds.ts'
import { InFlight, type KeepAlive } from '../../base/keep-alive.ts'
import { inputValues } from './pipeline-values.ts'
import {
  capacityOfSteps,
  estimatedMsOf,
  roomOf,
  foundAgain,
  isServed,
  metadataOf,
  type FindTarget,
  type InnerPipeline,
  type RunningStep,
  type StepServing,
  type StepTarget,
} from './step-target.ts'
import type { PipelineGraph, GraphStep, StepPlan } from './pipeline-graph.ts'
import { PipelineRun, type RunOwner, onlyTakers, StepReports } from './pipeline-run.ts'
import { CheckedTensors } from './checked-tensors.ts'
import { bindStep, type StepBinding } from './step-binding.ts'
import { StepErrors } from './step-errors.ts'
import type { Observers } from '../../observe/observers.ts'
import { ModelStats } from '../../observe/model-stats.ts'
import { factsOf } from '../../schedule/observed-requests.ts'

/** A loaded pipeline. It takes requests through the steps of its graph, and counts them. */
export class Pipeline implements InnerPipeline, RunOwner<PipelineRun> {
  readonly graph: PipelineGraph
  readonly metadata: ModelMetadata
  readonly labels: ReadonlyMap<string, readonly string[]>
  readonly targets: StepTarget[]
  readonly counts = new PipelineCounts()
  readonly errors: StepErrors
  readonly stepStats: readonly StepStats[]
  readonly onlyTakers: readonly (GraphStep | null)[]
  readonly #clock: Clock
  readonly #find: FindTarget
  readonly #tensors: CheckedTensors
  readonly #parser: FeedParser
  readonly #bindings: StepBinding[]
  readonly #inFlight: InFlight
  readonly #maxInFlight: number
  readonly #observed: ObservedRuns
  /** Requests that wait for one of the others to end. */
  readonly #line = new Set<PipelineRun>()
  readonly #begun = new PlacesOfRuns<PipelineRun>()
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
    { clock, keepAlive, observers, find }: PipelineServices,
  ) {
    const { name } = graph
    this.graph = graph
    this.targets = targets
    this.errors = new StepErrors(name)
    this.onlyTakers = onlyTakers(graph)
    this.#noValues = graph.tensors.map(() => undefined)
    this.#isSure = graph.steps.map((step) => isSure(graph, step))
    this.stepStats = graph.steps.map((step) => new StepStats(step))
    this.#clock = clock
    this.#find = find
    this.#inFlight = new InFlight(keepAlive)
    this.#maxInFlight = config.maxInFlight
    this.#bindings = graph.steps.map((step) => bindStep(name, step, targets[step.index]!.serving))
    this.#tensors = new CheckedTensors(graph, config, this.#bindings)
    const { maxBatchSize } = this.#tensors
    const joining = {
      rows: 'unknown',
      how: 'unknown',
      largestDifference: null,
      reason: 'each step joins requests for itself',
    } as const
    this.metadata = Object.freeze({
      name,
      path: '',
      properties: null,
      ...this.#tensors.metadata(),
      unservableOutputs: [],
      executionProviders: [],
      maxBatchSize,
      joining,
    })
    this.#observed = new ObservedRuns(
      { name, version: config.version ?? defaultVersion, metadata: this.metadata, batching: null },
      observers,
    )
    const optionalInputs = config.inputs.flatMap((input) => (input.optional ? [input.name] : []))
    this.#parser = new FeedParser(this.metadata, {
      optionalInputs,
      limited: config.maxBatchSize !== undefined,
    })
    this.labels = new Map(
      config.outputs.flatMap((output) =>
        output.labels === undefined ? [] : [[output.name, output.labels] as const],
      ),
    )
  }

  /** See {@link Model.infer}. */
  infer(feeds: unknown, given: unknown): Promise<Answer> {
    try {
      const options = given === undefined ? noOptions : checkInferOptions(given, this.metadata)
      if (options.sequence !== undefined) throw this.errors.noSequences(options.sequence.id)
      return new Promise((resolve, reject) =>
        this.begin(feeds, options, resolve, (reason) => rejectCaller(reason, resolve, reject)),
      ) // rejects with what it throws
    } catch (error) {
      this.counts.refused(error)
      return Promise.reject(error)
    }
  }

  begin(
    feeds: unknown,
    options: CheckedOptions,
    resolve: (answer: Answer) => void,
    reject: (reason: unknown) => void,
    parent?: RequestObservation | null,
  ): RunningStep {
    const { signal, splitOversized } = options
    const parsed = this.#parse(feeds, splitOversized === true && this.metadata.maxBatchSize > 0)
    const values = inputValues(this.metadata, parsed, this.#noValues)
    const reports = options.report ? new StepReports(++this.#count) : null
    const nowMs = this.#clock.nowMs()
    const run = new PipelineRun(this, values, parsed.rows, options, nowMs, reports, resolve, reject)
    if (this.#observed.by.observer !== null)
      run.observation = this.#observed.begun(parsed, options, nowMs, parent)
    if (signal?.aborted) {
      this.counts.aborted()
      run.settled = true
      run.observation?.ended(false, undefined, null)
      reject(signal.reason)
      return run
    }
    const isKnown = options.deadlineMs !== undefined && !parsed.data.includes(null) // otherwise inputs may be missing
    const refusal = isKnown ? this.#refusal(run, options.deadlineMs!) : null
    if (refusal !== null) {
      run.settled = true
      this.counts.failed(run, nowMs, 'deadline')
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

  /** The sum over the steps that always run; for a step that fans out, at least one row counts. */
  #estimatedMs({ steps }: StepPlan, rows: number, priority: number | undefined): number {
    let sumMs = 0
    for (const { index, fanOut } of steps)
      if (this.#isSure[index]!)
        sumMs += estimatedMsOf(this.targets[index]!.serving, fanOut === null ? rows : 1, priority)
    return sumMs
  }

  #parse(feeds: unknown, split: boolean): ParsedFeeds {
    try {
      return this.#parser.parse(feeds, split)
    } catch (error) {
      this.counts.refused(error)
      throw error
    }
  }

  /** Resolves when no request waits or runs. */
  drained(): Promise<void> {
    return this.#inFlight.drained()
  }

  /** Rejects all accepted requests. */
  destroy(): void {
    for (const run of [...this.#line, ...this.#begun.all])
      run.cancel(this.errors.closed(run.options.requestId), 'closed')
  }

  capacity(): ModelCapacity {
    return capacityOfSteps(
      this.targets,
      this.stepStats.map(({ rowsPerRequest }) => rowsPerRequest),
      { maxBatchSize: this.metadata.maxBatchSize, waiting: this.#line.size, running: this.#begun.size },
    )
  }

  room(priority: number | undefined): number {
    return Math.min(...this.targets.map(({ serving }) => roomOf(serving, priority)))
  }

  stats(): ModelStatistics {
    return {
      ...this.counts.stats.snapshot(this.#line.size),
      steps: this.stepStats.map((step) => step.snapshot()),
    }
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
    if (!isServed(this.targets[index]!.serving))
      this.targets[index] = foundAgain(this.targets[index]!, step, this.#find)
    const { serving } = this.targets[index]!
    if (!isServed(serving)) throw this.errors.notServed(step, serving, requestId)
    if (serving === binding.serving && metadataOf(serving) === binding.metadata) return binding
    const renewed = bindStep(this.graph.name, step, serving)
    this.#tensors.check(step, renewed)
    this.#bindings[index] = renewed
    return renewed
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
    if (answer === null) this.counts.failed(run, nowMs, why)
    else this.counts.answered(run, nowMs)
    if (run.observation !== null) tellEnd(run, nowMs, answer, why === 'cancelled' ? undefined : reason)
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
    let told: StepServing['scheduler'] = null
    for (let index = 0; index < runs.length; index++) {
      const step = steps[index]!
      const { scheduler } = this.targets[step.index]!.serving
      if (scheduler !== told) scheduler?.answered(nowMs) // nothing else will come
      told = scheduler
      runs[index]!.begin(step, nowMs)
    }
  }
}

/** Whether neither a step nor any that it depends on has a condition. */
function isSure(graph: PipelineGraph, { when, awaits }: GraphStep): boolean {
  return (
    when === null &&
    awaits.every((tensor) => {
      const { madeBy } = graph.tensors[tensor]!
      return madeBy === -1 || isSure(graph, graph.steps[madeBy]!)
    })
  )
}

/** What a pipeline needs of its engine. */
interface PipelineServices {
  readonly clock: Clock
  readonly keepAlive: KeepAlive
  readonly observers: Observers
  readonly find: FindTarget
}

/** A request of a pipeline, as far as counting needs it. */
interface CountedRun {
  readonly rows: number
  readonly madeAtMs: number
  readonly begunAtMs: number
}

/**
 * Statistics of a pipeline as a whole. Each request counts as a batch of its own, and all of its steps as its
 * run.
 */
class PipelineCounts {
  readonly stats = new ModelStats()

  /** A request was refused before it was accepted. */
  refused(error: unknown): void {
    this.stats.refused(refusalOf(error, undefined))
  }

  /** A request was already aborted at its call. */
  aborted(): void {
    this.stats.refused('cancelled')
  }

  answered({ rows, madeAtMs, begunAtMs }: CountedRun, nowMs: number): void {
    const times = { inputMs: 0, inferMs: nowMs - begunAtMs, outputMs: 0 }
    this.stats.ran(rows, times, false)
    this.stats.answered(madeAtMs, begunAtMs, times, nowMs)
  }

  failed({ madeAtMs }: CountedRun, nowMs: number, why: RejectionReason): void {
    this.stats.failed(why, nowMs - madeAtMs)
  }
}

/** An object that stores its index in a list; -1 for none. */
interface Placed {
  place: number
}

/** An unordered set of requests. Each stores its index, so that it can be removed in constant time. */
class PlacesOfRuns<Run extends Placed> {
  readonly #runs: Run[] = []

  get size(): number {
    return this.#runs.length
  }

  get all(): readonly Run[] {
    return this.#runs
  }

  add(run: Run): void {
    run.place = this.#runs.push(run) - 1
  }

  remove(run: Run): void {
    const last = this.#runs.pop()!
    if (last !== run) {
      this.#runs[run.place] = last
      last.place = run.place
    }
    run.place = -1
  }
}

/** A request of a pipeline, as far as observers see it. */
interface ObservedRun {
  readonly begunAtMs: number
  readonly observation: RequestObservation | null
}

/** Notifies the engine's observers of the requests of one pipeline. */
class ObservedRuns {
  /** Read for each request. */
  readonly by: Observers
  readonly #model: ObservedModel

  constructor(model: ObservedModel, by: Observers) {
    this.#model = model
    this.by = by
  }

  /**
   * A request has begun.
   *
   * @param parent the observation of the request that this one belongs to; `null` if that is not observed.
   * Left out for a caller's request, and for a function that is run for another model.
   */
  begun(
    feeds: ParsedFeeds,
    options: CheckedOptions,
    atMs: number,
    parent: RequestObservation | null | undefined = this.by.parent,
  ): RequestObservation | null {
    if (parent === null) return null
    const facts = factsOf(feeds, options, atMs)
    return parent === undefined
      ? this.by.observer!.begun(this.#model, facts)
      : parent.child(this.#model, facts)
  }
}

/** Notifies the observation of the request's end. */
function tellEnd(
  { observation, begunAtMs }: ObservedRun,
  nowMs: number,
  answer: Answer | null,
  reason: unknown,
): void {
  if (answer !== null) observation!.passed(begunAtMs, nowMs)
  observation!.ended(answer !== null, reason, answer)
}

/** Counts the outcomes of one step of a pipeline. */
export class StepStats {
  readonly #step: GraphStep
  #successes = 0
  #successMs = 0
  #failures = 0
  #failMs = 0
  #cancelled = 0
  #skipped = 0
  #fanned = 0
  #rows = 0

  constructor(step: GraphStep) {
    this.#step = step
  }

  succeeded(ms: number): void {
    this.#successes++
    this.#successMs += ms
  }

  failed(ms: number): void {
    this.#failures++
    this.#failMs += ms
  }

  /** The step had begun when its request ended. */
  cancelled(): void {
    this.#cancelled++
  }

  /** A request fans out to so many rows. */
  fannedOut(rows: number): void {
    this.#fanned++
    this.#rows += rows
  }

  /** Requests of its model per request of the step: 1, or the average number of rows. */
  get rowsPerRequest(): number {
    return this.#fanned === 0 ? 1 : this.#rows / this.#fanned
  }

  skipped(): void {
    this.#skipped++
  }

  snapshot(): StepStatistics {
    const { name, model } = this.#step
    return {
      step: name,
      model,
      success: durationOf(this.#successes, this.#successMs),
      fail: durationOf(this.#failures, this.#failMs),
      cancelledCount: this.#cancelled,
      skippedCount: this.#skipped,
      rowCount: this.#rows,
    }
  }
}
