import type { CheckedOptions } from '../../options/infer-options.ts'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import { type ModelCapacity, capacityOf } from '../../observe/model-statistics.ts'
import type { RequestObservation } from '../../observe/request-observer.ts'
import type { FeedParser } from '../../request/feeds.ts'
import type { Answer, ParsedFeeds } from '../../request/infer-request.ts'
import type { ResponseSharing } from '../response-cache/response-sharing.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import type { TensorData } from '../../tensor/tensor.ts'
import type { GraphStep } from './pipeline-graph.ts'

/** The target of a step's requests: a name, or one version of it. */
export interface StepTarget {
  readonly name: string
  /** Changes when the model is loaded again. */
  readonly serving: StepServing
}

/** Finds a name, or one version of it. Throws InferenceError `ERR_MODEL_NOT_FOUND`. */
export type FindTarget = (model: string, version: number | undefined) => StepTarget

/**
 * Rows in a batch of a model that can be written before there is a request for them. They are held until they
 * are settled.
 */
export type StagedRows = NonNullable<ParsedFeeds['leased']> & { whole(input: number): TensorData | null }

/** The part of a model, function or pipeline that a step uses. */
export interface StepServing {
  readonly version: number
  readonly state: string
  readonly failure: string | null
  readonly scheduler: Scheduler | null
  readonly parser: FeedParser | null
  readonly responses: ResponseSharing | null
  readonly sequences: object | null
  readonly leases: { lendIfAny(): { stage(rows: number): StagedRows | null } | null }
  readonly splitsOversized: boolean
  /** Names of the inputs that a request may omit. */
  readonly optionalInputs: readonly string[]
  /** `null` unless it is a pipeline. */
  readonly pipeline: InnerPipeline | null
}

/** A pipeline as a step of another one. */
export interface InnerPipeline {
  readonly metadata: ModelMetadata
  capacity(): ModelCapacity
  /** How many more requests of a level its steps would accept now. */
  room(priority: number | undefined): number
  /**
   * Estimated milliseconds until a new request of so many rows would be answered, as far as its steps know.
   */
  estimatedMs(rows: number, priority: number | undefined): number
  /**
   * Begins a request, which settles once.
   *
   * @param parent the observation of the request that it belongs to.
   *
   * @throws InferenceError `ERR_INVALID_ARG` for feeds that do not fit.
   */
  begin(
    feeds: unknown,
    options: CheckedOptions,
    resolve: (answer: Answer) => void,
    reject: (reason: unknown) => void,
    parent: RequestObservation | null,
  ): RunningStep
}

/** A step's part of a request, in flight. */
export interface RunningStep {
  /** Ends it soon: its outcome is not needed any more. */
  cancel(reason: unknown): void
}

/** A model's metadata; `null` until it has been opened. */
export function metadataOf({ scheduler, pipeline }: StepServing): ModelMetadata | null {
  return pipeline?.metadata ?? scheduler?.joining.metadata ?? null
}

/** Most rows in a run of a model; 0 if requests are not joined. */
export function largestBatchOf({ scheduler, pipeline }: StepServing): number {
  return pipeline === null ? scheduler!.joining.largestBatch : pipeline.metadata.maxBatchSize
}

/**
 * Whether steps' requests are accepted. A draining model still accepts them, as the pipelines that use it
 * drain first.
 */
export function isServed({ state }: StepServing): boolean {
  return state === 'ready' || state === 'draining'
}

/**
 * The target after a failure. A failed model loses its name when it cannot be reloaded; a model loaded later
 * is another target.
 */
export function foundAgain(
  target: StepTarget,
  { model, version }: Pick<GraphStep, 'model' | 'version'>,
  find: FindTarget,
): StepTarget {
  try {
    return find(model, version)
  } catch {
    return target // it was not reloaded yet
  }
}

/**
 * Spare capacity of the models of a pipeline's steps: the smallest of theirs.
 *
 * @param perRequest requests of each step's model per request of the pipeline.
 */
export function capacityOfSteps(
  targets: readonly StepTarget[],
  perRequest: readonly number[],
  own: Pick<ModelCapacity, 'maxBatchSize' | 'waiting' | 'running'>,
): ModelCapacity {
  const each = targets.map(({ serving }, step) =>
    forSeveral(capacityOfServing(serving), Math.max(1, perRequest[step]!)),
  )
  const least = (figure: 'instances' | 'free' | 'requestsPerSecond') =>
    Math.min(...each.map((capacity) => capacity[figure]))
  const isKnown = each.every(({ estimatedMs }) => estimatedMs > 0)
  return {
    ...own,
    instances: least('instances'),
    free: least('free'),
    requestsPerSecond: least('requestsPerSecond'),
    estimatedMs: isKnown ? each.reduce((sum, { estimatedMs }) => sum + estimatedMs, 0) : 0,
  }
}

function forSeveral(capacity: ModelCapacity, requests: number): ModelCapacity {
  return requests === 1
    ? capacity
    : {
        ...capacity,
        free: Math.floor(capacity.free / requests),
        requestsPerSecond: capacity.requestsPerSecond / requests,
      }
}

/** How many more requests of a level would be accepted now. */
export function roomOf({ scheduler, pipeline }: StepServing, priority: number | undefined): number {
  return pipeline === null ? (scheduler?.levels.of(priority).room ?? Infinity) : pipeline.room(priority)
}

/** Estimated milliseconds until a new request would be answered; 0 without earlier requests like it. */
export function estimatedMsOf(
  { scheduler, pipeline }: StepServing,
  rows: number,
  priority: number | undefined,
): number {
  return pipeline === null
    ? (scheduler?.estimatedAnswerMs('', rows, priority) ?? 0)
    : pipeline.estimatedMs(rows, priority)
}

/** Spare capacity of a model: none while it is reopened after a failure. */
export function capacityOfServing({ scheduler, pipeline }: StepServing): ModelCapacity {
  if (pipeline !== null) return pipeline.capacity()
  return scheduler === null ? none : capacityOf(scheduler)
}

const none: ModelCapacity = {
  instances: 0,
  maxBatchSize: 0,
  waiting: 0,
  running: 0,
  free: 0,
  requestsPerSecond: 0,
  estimatedMs: 0,
}
