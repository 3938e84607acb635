import type { CheckedOptions } from '../../options/infer-options.ts'
import { refusalOf } from '../../observe/rejections.ts'
import type { RequestObservation } from '../../observe/request-observer.ts'
import type { PriorityLevel } from '../../request/priority-levels.ts'
import { InferRequest, type Answer, type ParsedFeeds } from '../../request/infer-request.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import { SplitRequest } from '../../schedule/split-request.ts'
import type { TensorData } from '../../tensor/tensor.ts'
import type { GraphStep } from './pipeline-graph.ts'
import type { StepBinding } from './step-binding.ts'
import type { RunningStep } from './step-target.ts'

/** Notified when a step of a request, or one of its rows, has ended, and how. */
export interface StepCaller {
  /** The observation of its request; `null`, mostly, if it is not observed. */
  readonly observation: RequestObservation | null
  answered(step: GraphStep, answer: Answer): void
  failed(step: GraphStep, reason: unknown): void
  /** Memory for a tensor; `null` for memory of its own. */
  placeFor(tensor: number, rows: number): TensorData | null
}

/** A step's part of a request in the queue of its model. It settles through calls instead of a promise. */
class StepRequest extends InferRequest implements RunningStep {
  readonly #binding: StepBinding
  readonly #caller: StepCaller
  readonly #step: GraphStep

  constructor(
    binding: StepBinding,
    feeds: ParsedFeeds,
    level: PriorityLevel,
    options: CheckedOptions,
    caller: StepCaller,
    step: GraphStep,
  ) {
    super(feeds, level, options, nobody, nobody)
    this.isStep = true
    this.#binding = binding
    this.#caller = caller
    this.#step = step
  }

  override placeFor(output: number): TensorData | null {
    const tensor = this.#binding.made[output]!
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
    this.#binding.serving.scheduler!.cancel(this, 'cancelled', reason)
  }
}

/**
 * Sends a step's part of a request to the model that serves it.
 *
 * @param options with the outputs that the step names, and without a signal.
 * @returns what is in flight, or has already settled.
 * @throws InferenceError `ERR_INVALID_ARG` for feeds that do not fit.
 */
export function startStep(
  binding: StepBinding,
  feeds: unknown,
  options: CheckedOptions,
  caller: StepCaller,
  step: GraphStep,
): RunningStep {
  const { serving } = binding
  if (serving.pipeline !== null)
    return serving.pipeline.begin(feeds, options, ...told(caller, step), caller.observation)
  const scheduler = serving.scheduler!
  const { maxBatchSize } = scheduler.joining.metadata
  const split = (options.splitOversized ?? serving.splitsOversized) && maxBatchSize > 0
  const parsed = parse(binding, feeds, split)
  const maxRows = split && !parsed.whole ? maxBatchSize : Infinity
  if (serving.responses === null && parsed.rows <= maxRows)
    return submitStep(binding, parsed, options, caller, step)
  const level = scheduler.levels.of(options.priority)
  if (serving.responses !== null) {
    const leave = new AbortController()
    void serving.responses
      .infer({
        feeds: parsed,
        maxRows,
        level,
        options: { ...options, signal: leave.signal },
        parent: caller.observation,
      })
      .then(...told(caller, step))
    return { cancel: (reason) => leave.abort(reason) }
  }
  const request = new SplitRequest(scheduler.metadata, parsed, maxRows, level, options, ...told(caller, step))
  observe(caller, scheduler, request, options)
  scheduler.submit(request, options)
  return { cancel: (reason) => scheduler.cancel(request, 'cancelled', reason) }
}

/** The step's model treats its pipeline like any caller. */
function parse({ serving }: StepBinding, feeds: unknown, split: boolean): ParsedFeeds {
  try {
    return serving.parser!.parse(feeds, split)
  } catch (error) {
    serving.scheduler!.stats.refused(refusalOf(error, undefined))
    throw error
  }
}

/** Like {@link startStep}, for a parsed request that is a single run of a model. */
export function submitStep(
  binding: StepBinding,
  parsed: ParsedFeeds,
  options: CheckedOptions,
  caller: StepCaller,
  step: GraphStep,
  nowMs?: number,
): RunningStep {
  const scheduler = binding.serving.scheduler!
  const request = new StepRequest(
    binding,
    parsed,
    scheduler.levels.of(options.priority),
    options,
    caller,
    step,
  )
  observe(caller, scheduler, request, options)
  scheduler.submit(request, options, nowMs)
  return request
}

function observe(
  { observation }: StepCaller,
  { observed, clock }: Scheduler,
  request: InferRequest,
  options: CheckedOptions,
): void {
  if (observation !== null) observed.begun(request, options, clock.nowMs(), observation)
}

/** Turns a promise's outcome into calls of the step's caller, for requests that cannot call it themselves. */
function told(
  caller: StepCaller,
  step: GraphStep,
): [resolve: (answer: Answer) => void, reject: (reason: unknown) => void] {
  return [(answer) => caller.answered(step, answer), (reason) => caller.failed(step, reason)]
}

function nobody(): void {}
