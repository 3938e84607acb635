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

/** What the requests of a step go to: a name, or one version of it. */
export interface StepTarget {
  readonly name: string
  /** Another one once it was loaded again. */
  readonly serving: StepServing
}

/** Finds a name, or one version of it. Throws InferenceError `ERR_MODEL_NOT_FOUND`. */
export type FindTarget = (model: string, version: number | undefined) => StepTarget

/** Rows of a batch of a model, held until they are settled, to be written before there is a request of them. */
export type StagedRows = NonNullable<ParsedFeeds['leased']> & { whole(input: number): TensorData | null }

/** A model, function or pipeline, as a step needs it. */
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
  /** Names of the inputs that a request may leave out. */
  readonly optionalInputs: readonly string[]
  /** `null` unless it is a pipeline. */
  readonly pipeline: InnerPipeline | null
}

/** A pipeline as a step of another one. */
export interface InnerPipeline {
  readonly metadata: ModelMetadata
  capacity(): ModelCapacity
  /** Requests of a level that its steps would accept now. */
  room(priority: number | undefined): number
  /** In how many milliseconds a request of so many rows would be answered that came now, as far as its steps can tell. */
  estimatedMs(rows: number, priority: number | undefined): number
  /**
   * Begins a request, which settles once.
   *
   * @param parent told of it, with the request that it is part of.
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

/** A step's part of a request, on its way. */
export interface RunningStep {
  /** Has it end soon: nobody waits for it any more. */
  cancel(reason: unknown): void
}

/** What a model takes and gives; `null` until it has been opened. */
export function metadataOf({ scheduler, pipeline }: StepServing): ModelMetadata | null {
  return pipeline?.metadata ?? scheduler?.joining.metadata ?? null
}

/** Most rows that go through a model together; 0 where requests are not joined. */
export function largestBatchOf({ scheduler, pipeline }: StepServing): number {
  return pipeline === null ? scheduler!.joining.largestBatch : pipeline.metadata.maxBatchSize
}

/** Whether requests of steps are taken. A model that drains has a pipeline drain before it. */
export function isServed({ state }: StepServing): boolean {
  return state === 'ready' || state === 'draining'
}

/** What failed loses its name when it cannot be loaded again, and what is loaded after that is another target. */
export function foundAgain(
  target: StepTarget,
  { model, version }: Pick<GraphStep, 'model' | 'version'>,
  find: FindTarget,
): StepTarget {
  try {
    return find(model, version)
  } catch {
    return target // it was not loaded again yet
  }
}

/**
 * How much more the models of a pipeline's steps can take: as much as the one that takes the least.
 *
 * @param perRequest requests of each step's model for one of the pipeline's.
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

/** Requests of a level that would be accepted now. */
export function roomOf({ scheduler, pipeline }: StepServing, priority: number | undefined): number {
  return pipeline === null ? (scheduler?.levels.of(priority).room ?? Infinity) : pipeline.room(priority)
}

/** In how many milliseconds a request would be answered that came now; 0 when nothing like it was seen. */
export function estimatedMsOf(
  { scheduler, pipeline }: StepServing,
  rows: number,
  priority: number | undefined,
): number {
  return pipeline === null
    ? (scheduler?.estimatedAnswerMs('', rows, priority) ?? 0)
    : pipeline.estimatedMs(rows, priority)
}

/** How much more a model can take: nothing while it is opened again after it had failed. */
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
