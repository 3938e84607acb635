import {
  noOptions,
  type CheckedOptions,
  type BatchReport,
  type ReportedOutputs,
  type StepReport,
} from '../../options/infer-options.ts'
import type { AnyOutputs } from '../../options/model-signature.ts'
import type { RequestObservation } from '../../observe/request-observer.ts'
import { rejectionOf, type RejectionReason } from '../../observe/rejections.ts'
import { unwatch, watch } from '../../base/abort-watch.ts'
import type { Answer, ParsedFeeds } from '../../request/infer-request.ts'
import { putValue, type TensorData, type TensorLike } from '../../tensor/tensor.ts'
import { FanOut } from './fan-out.ts'
import { FannedFeeds, shownValue, type PipelineValue, isWanted } from './pipeline-values.ts'
import type { GraphStep, StepPlan, PipelineGraph } from './pipeline-graph.ts'
import type { StepBinding } from './step-binding.ts'
import type { ServedModel } from '../served-model.ts'
import type { HeldRows } from '../leases/held-rows.ts'
import type { RunningStep, StepCaller } from '../target.ts'
import type { Pipeline } from './pipeline.ts'

/** One request in a pipeline. It settles exactly once. */
export class PipelineRun implements StepCaller<StepBinding>, RunningStep {
  readonly options: CheckedOptions
  readonly rows: number
  /** When it was created, and when its first steps could begin, in milliseconds. */
  readonly madeAtMs: number
  begunAtMs = 0
  settled = false
  /** Its index among the requests that have begun; -1 for none. */
  place = -1
  /** The timer for waiting too long to begin; `null` for none. */
  timer: unknown = null
  observation: RequestObservation | null = null
  readonly #owner: Pipeline
  readonly #plan: StepPlan
  readonly #reports: StepReports | null
  readonly #resolve: (answer: Answer) => void
  readonly #reject: (reason: unknown) => void
  /** By tensor; `undefined` until it is made. */
  readonly #values: (PipelineValue | undefined)[]
  /** By step: the number of tensors it waits for. */
  readonly #missing: number[]
  /** By step: when it could begin, and what is in flight. */
  readonly #beganAtMs: number[]
  readonly #running: (RunningStep | null)[]
  #left: number
  #staged: StagedTensors | null = null
  #onAbort: (() => void) | null = null

  /** @param values by tensor: those of the pipeline's inputs. */
  constructor(
    owner: Pipeline,
    values: (PipelineValue | undefined)[],
    rows: number,
    options: CheckedOptions,
    madeAtMs: number,
    reports: StepReports | null,
    resolve: (answer: Answer) => void,
    reject: (reason: unknown) => void,
  ) {
    this.#owner = owner
    this.#plan = owner.graph.planFor(options.outputs)
    this.#values = values
    const { missing, times, none } = this.#plan
    this.#missing = missing.slice()
    this.#beganAtMs = times.slice() // a full copy
    this.#running = none.slice()
    this.#left = this.#plan.steps.length
    this.#reports = reports
    this.#resolve = resolve
    this.#reject = reject
    this.rows = rows
    this.options = options
    this.madeAtMs = madeAtMs
  }

  /** Ends with the signal's reason when it fires. */
  listen(signal: AbortSignal): void {
    watch(signal, (this.#onAbort = () => this.cancel(signal.reason)))
  }

  /** Begins the steps that depend on the request only. */
  start(nowMs: number): void {
    this.begunAtMs = nowMs
    for (const step of this.#plan.first) this.begin(step, nowMs)
  }

  /** Runs a step whose tensors are all made, or skips it. */
  begin(step: GraphStep, nowMs: number): void {
    if (this.settled) return
    const { index } = step
    this.#beganAtMs[index] = nowMs
    try {
      const binding = this.#owner.bind(step, this.options.requestId)
      const made = this.#madeFor(binding)
      const feeds = made ?? this.#feedsOf(step, binding)
      const wanted =
        feeds !== null &&
        (step.when === null || isWanted(step, step.when, this.#values, this.#owner, this.options.requestId))
      if (this.settled) return // its `when` has ended the request
      if (!wanted) return this.#skip(step)
      if (this.#reports !== null) this.#reports.began(step, binding.version, nowMs - this.madeAtMs)
      if (binding.fanned !== null)
        return this.#fanOut(step, binding, feeds as Readonly<Record<string, PipelineValue>>) // `made` is null here
      const options = this.#optionsOf(step, binding, nowMs)
      const running =
        made !== null
          ? binding.model!.submitStep(binding, made, options, this, nowMs)
          : binding.target.begin(binding, feeds, options, this)
      if (this.#beganAtMs[index] !== ended) this.#running[index] = running // otherwise it was refused at once
    } catch (error) {
      this.#failed(step, error, null)
    }
  }

  /** Runs each row of the step's input as a request of its own. */
  #fanOut(step: GraphStep, binding: StepBinding, feeds: Readonly<Record<string, PipelineValue>>): void {
    const fanned = new FannedFeeds(step.model, binding.metadata.inputs, binding.fanned!, feeds)
    const stats = this.#owner.stepStats[step.index]!
    stats.fanned++
    stats.rows += fanned.rows
    const renew = () => {
      const now = this.#owner.bind(step, this.options.requestId)
      return { binding: now, options: this.#optionsOf(step, now, this.#owner.nowMs()) }
    }
    const fanOut = new FanOut({ binding, feeds: fanned, wanted: this.options, caller: this, renew })
    this.#running[step.index] = fanOut
    fanOut.start()
  }

  answered({ step }: StepBinding, answer: Answer): void {
    if (this.settled) return
    const { index, outputs: ports } = step
    const nowMs = this.#owner.answeredAtMs()
    const stats = this.#owner.stepStats[index]!
    stats.successes++
    stats.successMs += Math.max(0, nowMs - this.#beganAtMs[index]!)
    this.#end(index)
    const outputs = this.#reports === null ? (answer as AnyOutputs) : this.#reports.take(step, answer)
    for (let port = 0; port < ports.length; port++) {
      const { name, tensor } = ports[port]!
      this.#values[tensor] = Object.hasOwn(outputs, name) ? outputs[name]! : null
    }
    this.#stepEnded(step, nowMs)
  }

  failed({ step }: StepBinding, reason: unknown, row: number | null = null): void {
    this.#failed(step, reason, row)
  }

  #failed(step: GraphStep, reason: unknown, row: number | null): void {
    if (this.settled) return
    const beganAtMs = this.#beganAtMs[step.index]!
    const stats = this.#owner.stepStats[step.index]!
    stats.failures++
    stats.failMs += this.#owner.nowMs() - beganAtMs
    this.#end(step.index)
    const error = this.#owner.errors.ofStep(
      step,
      reason,
      beganAtMs - this.madeAtMs,
      this.options.deadlineMs,
      row,
    )
    this.#settle()
    queueMicrotask(() => this.#endRunning(error)) // others may be in its batch
    this.#tellFailed(error, rejectionOf(error))
  }

  placeFor(tensor: number, rows: number): TensorData | null {
    const taker = this.#owner.onlyTakers[tensor]!
    if (taker === null || this.settled || this.#plan.missing[taker.index] === -1) return null
    try {
      const { model, stageable } = this.#owner.bind(taker, undefined)
      return stageable && model!.parser.plain !== null
        ? (this.#staged ??= new StagedTensors()).add(tensor, model!, rows)
        : null
    } catch {
      return null // the step reports it
    }
  }

  /**
   * Rejects the request and cancels what is in flight for it. The reason counts as `cancelled` by the caller
   * unless `why` says otherwise. May be called more than once.
   */
  cancel(reason: unknown, why: RejectionReason = 'cancelled'): void {
    if (!this.#settle()) return
    this.#endRunning(reason)
    this.#tellFailed(reason, why)
  }

  #endRunning(reason: unknown): void {
    for (const { index } of this.#plan.steps) {
      const running = this.#running[index]
      if (!running) continue
      this.#end(index)
      this.#owner.stepStats[index]!.cancelled++
      running.cancel(reason)
    }
    this.#staged?.settled() // not read any more
  }

  #tellFailed(reason: unknown, why: RejectionReason): void {
    this.#owner.ended(this, this.#owner.nowMs(), null, why, reason)
    this.#reject(reason)
  }

  /**
   * A request of the step's model, made of the pipeline's own tensors without parsing; `null` if it needs
   * parsing.
   */
  #madeFor({ tensors, model }: StepBinding): ParsedFeeds | null {
    const plain = tensors === null ? null : model!.parser.plain
    if (plain === null) return null
    const values: TensorLike[] = []
    for (let index = 0; index < tensors!.length; index++) {
      const value = this.#values[tensors![index]!]!
      if (value === null) return null
      values.push(value as TensorLike)
    }
    const parsed = plain.take(values)
    const leased =
      this.#staged === null || parsed === null ? null : this.#staged.of(tensors![0]!, model!, parsed.data[0])
    return leased === null ? parsed : { ...parsed!, leased }
  }

  /** The feeds of the step's model; `null` if a required tensor was left out. */
  #feedsOf({ inputs }: GraphStep, { optional }: StepBinding): Record<string, PipelineValue> | null {
    const feeds: Record<string, PipelineValue> = {}
    for (let port = 0; port < inputs.length; port++) {
      const { name, tensor } = inputs[port]!
      const value = this.#values[tensor]!
      if (value !== null) putValue(feeds, name, value)
      else if (!optional[port]) return null
    }
    return feeds
  }

  /** The options of the step's request, with the time that is left. */
  #optionsOf(step: GraphStep, { outputs, plainOptions }: StepBinding, nowMs: number): CheckedOptions {
    if (this.options === noOptions) return plainOptions
    const { deadlineMs, requestId } = this.options
    if (deadlineMs === undefined) return { ...this.options, signal: undefined, outputs }
    const elapsedMs = nowMs - this.madeAtMs
    if (elapsedMs >= deadlineMs) throw this.#owner.errors.late(step, deadlineMs, elapsedMs, requestId)
    return { ...this.options, signal: undefined, outputs, deadlineMs: deadlineMs - elapsedMs }
  }

  #skip(step: GraphStep): void {
    this.#end(step.index)
    this.#owner.stepStats[step.index]!.skipped++
    for (const { tensor } of step.outputs) this.#values[tensor] = null
    this.#stepEnded(step, this.#owner.nowMs())
  }

  #stepEnded({ outputs: ports }: GraphStep, nowMs: number): void {
    const { graph } = this.#owner
    for (let port = 0; port < ports.length; port++) {
      for (const next of graph.tensors[ports[port]!.tensor]!.awaitedBy) {
        if (this.#plan.missing[next] !== -1 && --this.#missing[next]! === 0)
          this.#owner.later(this, graph.steps[next]!)
      }
    }
    if (--this.#left > 0 || !this.#settle()) return
    this.#staged?.settled()
    const outputs = this.#outputs()
    const answer: Answer =
      this.#reports === null
        ? outputs
        : { outputs, report: this.#reports.whole(graph.name, this.rows, this.begunAtMs - this.madeAtMs) }
    this.#owner.ended(this, nowMs, answer, 'execution', undefined)
    this.#resolve(answer)
  }

  #outputs(): AnyOutputs {
    const { graph } = this.#owner
    const outputs: AnyOutputs = {}
    for (let index = 0; index < graph.outputs.length; index++) {
      if (this.options.outputs !== null && !this.options.outputs.includes(index)) continue
      const tensor = graph.outputs[index]!
      const value = this.#values[tensor]
      if (value != null) putValue(outputs, graph.tensors[tensor]!.name, shownValue(value))
    }
    return outputs
  }

  #end(step: number): void {
    this.#running[step] = null
    this.#beganAtMs[step] = ended
  }

  #settle(): boolean {
    if (this.settled) return false
    this.settled = true
    if (this.#onAbort !== null) unwatch(this.options.signal!, this.#onAbort)
    return true
  }
}

/** Marks a step that has ended, in place of its begin. */
const ended = -1

/** By tensor: the only step that takes it; `null` if there is none, or the tensor has other uses. */
export function onlyTakers({ tensors, steps, outputs }: PipelineGraph): (GraphStep | null)[] {
  return tensors.map(({ madeBy, awaitedBy }, tensor) => {
    const [next, ...others] = awaitedBy
    if (madeBy === -1 || next === undefined || others.length > 0 || outputs.includes(tensor)) return null
    const step = steps[next]!
    return step.when === null && step.inputs.length === 1 ? step : null
  })
}

/**
 * Tensors of one request, written directly into the batch memory of the steps that take them. Each is held
 * until the request or the step is settled.
 */
class StagedTensors {
  /** By tensor. */
  readonly #staged: { readonly rows: HeldRows; readonly model: ServedModel; readonly data: TensorData }[] = []

  /** Memory for a tensor of so many rows; `null` if there is no room. */
  add(tensor: number, model: ServedModel, rows: number): TensorData | null {
    if (this.#staged[tensor] !== undefined) return null
    const staged = model.lendIfAny()?.stage(rows) ?? null
    const data = staged === null ? null : staged.whole(0)
    if (data !== null) this.#staged[tensor] = { rows: staged!, model, data }
    return data
  }

  /** The rows that contain a tensor, if they belong to a batch of the current model. */
  of(tensor: number, model: ServedModel, data: unknown): HeldRows | null {
    const staged = this.#staged[tensor]
    return staged !== undefined && staged.model === model && staged.data === data ? staged.rows : null
  }

  /** Frees them. */
  settled(): void {
    for (const staged of this.#staged) if (staged !== undefined) staged.rows.settled()
  }
}

/** Collects the reports of a request's steps for the report of the whole. */
export class StepReports {
  readonly #steps: StepReport[] = []
  readonly #parentId: number
  /** By step. */
  readonly #begun: { readonly version: number; readonly beganMs: number }[] = []

  constructor(parentId: number) {
    this.#parentId = parentId
  }

  /** @param beganMs from the request's call, in milliseconds. */
  began({ index }: GraphStep, version: number, beganMs: number): void {
    this.#begun[index] = { version, beganMs }
  }

  /** Removes a step's report from its answer and keeps it. */
  take({ index, name, model }: GraphStep, answer: Answer): AnyOutputs {
    const { outputs, report } = answer as ReportedOutputs<AnyOutputs>
    this.#steps.push({ ...report, step: name, model, parentId: this.#parentId, ...this.#begun[index]! })
    return outputs
  }

  /** @param waitedMs until the first steps began. */
  whole(pipeline: string, rows: number, waitedMs: number): BatchReport {
    const steps = this.#steps
    const last = steps.at(-1)
    return {
      batchId: this.#parentId,
      batchSize: rows,
      paddedTo: null,
      position: 0,
      queuedMs: steps.reduce((sum, { queuedMs }) => sum + queuedMs, waitedMs),
      computeMs: steps.reduce((sum, { computeMs }) => sum + computeMs, 0),
      reason: last?.reason ?? 'full',
      inline: steps.every(({ inline }) => inline),
      instance: pipeline,
      attempts: Math.max(1, ...steps.map(({ attempts }) => attempts)),
      steps,
    }
  }
}
