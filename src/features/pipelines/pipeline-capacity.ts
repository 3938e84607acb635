import { capacityOf, type ModelCapacity } from '../../observe/model-statistics.ts'
import type { StepServing, StepTarget } from './step-target.ts'

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
