import { invalidArgument, type InferenceError } from '../errors.ts'
import type { CheckedOptions, InferOptions } from '../options/infer-options.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import type { ModelCapacity, ModelStatistics } from '../observe/model-statistics.ts'
import type { ModelCounts } from '../observe/model-counts.ts'
import type { RequestObservation } from '../observe/request-observer.ts'
import { InferRequest, type Answer, type ParsedFeeds, type PriorityLevel } from '../request/infer-request.ts'
import type { Scheduler } from '../schedule/scheduler.ts'
import type { TensorData } from '../tensor/tensor.ts'

/** What requests are sent to, by callers and by steps of pipelines: a model or function that serves, or a pipeline. */
export interface Target {
  readonly kind: 'model' | 'pipeline'
  /** What callers see of it; another object once it has learnt more. */
  readonly metadata: ModelMetadata
  /** Class names by output. */
  readonly labels: ReadonlyMap<string, readonly string[]>
  /** Names of the inputs that a request may leave out. */
  readonly optionalInputs: readonly string[]
  /** Most rows in a run; 0 if requests are not joined. */
  readonly largestBatch: number
  /** How many models a request passes through. */
  readonly stepCount: number
  readonly counts: ModelCounts
  /** See `Model.infer`. */
  infer(feeds: unknown, options?: InferOptions<string, boolean>): Promise<Answer>
  /**
   * Begins the request of a pipeline's step.
   *
   * @param options with the outputs that the step names, and without a signal.
   * @returns what is in flight, or has already settled.
   * @throws InferenceError `ERR_INVALID_ARG` for feeds that do not fit.
   */
  begin<Step extends BoundStep>(
    step: Step,
    feeds: unknown,
    options: CheckedOptions,
    caller: StepCaller<Step>,
  ): RunningStep
  /** How many more requests of a level would be accepted now. */
  room(priority: number | undefined): number
  /** Estimated milliseconds until a new request would be answered; 0 without earlier requests like it. */
  estimatedMs(rows: number, priority: number | undefined): number
  capacity(): ModelCapacity
  stats(): ModelStatistics
  /** See `Model.joiningKnown`. */
  joiningKnown(): Promise<void>
  /** Resolves when no request waits or runs. */
  drained(): Promise<void>
  /** Rejects all accepted requests, and stops what runs. */
  destroy(): void
}

/** A step of a pipeline, bound to the target that it sends its requests to. */
export interface BoundStep {
  /** By output of the model: its tensor in the pipeline; -1 for none. */
  readonly made: readonly number[]
}

/** Notified when a step of a request, or one of its rows, has ended, and how. */
export interface StepCaller<Step extends BoundStep> {
  /** The observation of its request; `null`, mostly, if it is not observed. */
  readonly observation: RequestObservation | null
  answered(step: Step, answer: Answer): void
  failed(step: Step, reason: unknown): void
  /** Memory for a tensor; `null` for memory of its own. */
  placeFor(tensor: number, rows: number): TensorData | null
}

/** A step's part of a request, in flight. */
export interface RunningStep {
  /** Ends it soon: its outcome is not needed any more. */
  cancel(reason: unknown): void
}

/** The error for a request in a sequence to a target that has none. */
export function noSequences(model: string, target: Target | null): InferenceError {
  const hint =
    target?.kind === 'model'
      ? 'Load the model with sequence in its configuration'
      : 'It is a pipeline, which has none'
  return invalidArgument('options.sequenceId', 'a model with sequences', 'one without', { model, hint })
}

/** A step's part of a request in the queue of its model. It settles through calls instead of a promise. */
export class StepRequest<Step extends BoundStep> extends InferRequest implements RunningStep {
  readonly #step: Step
  readonly #scheduler: Scheduler
  readonly #caller: StepCaller<Step>

  constructor(
    step: Step,
    scheduler: Scheduler,
    feeds: ParsedFeeds,
    level: PriorityLevel,
    options: CheckedOptions,
    caller: StepCaller<Step>,
  ) {
    super(feeds, level, options, doNothing, doNothing)
    this.isStep = true
    this.#step = step
    this.#scheduler = scheduler
    this.#caller = caller
  }

  override placeFor(output: number): TensorData | null {
    const tensor = this.#step.made[output]!
    return tensor === -1 ? null : this.#caller.placeFor(tensor, this.rows)
  }

  override succeed(answer: Answer): boolean {
    if (!super.succeed(answer)) return false
    this.#caller.answered(this.#step, answer)
    return true
  }

  override fail(reason: unknown, isWithdrawn = false): boolean {
    if (!super.fail(reason, isWithdrawn)) return false
    this.#caller.failed(this.#step, reason)
    return true
  }

  cancel(reason: unknown): void {
    this.#scheduler.cancel(this, 'cancelled', reason)
  }
}

/** Turns a promise's outcome into calls of the step's caller, for requests that cannot call it themselves. */
export function callsOf<Step extends BoundStep>(
  caller: StepCaller<Step>,
  step: Step,
): [resolve: (answer: Answer) => void, reject: (reason: unknown) => void] {
  return [(answer) => caller.answered(step, answer), (reason) => caller.failed(step, reason)]
}

function doNothing(): void {}
