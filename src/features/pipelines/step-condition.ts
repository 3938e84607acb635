import { isPromise } from 'node:util/types'
import { shownTensors, type PipelineValue } from './input-values.ts'
import type { GraphStep, PipelineGraph } from './pipeline-graph.ts'
import type { StepErrors } from './step-errors.ts'

/**
 * Whether a step is run for a request, as its `when` says.
 *
 * @param values by tensor; all that the step waits for are there.
 * @throws InferenceError `ERR_EXECUTION` where it throws, or gives no boolean.
 */
export function isWanted(
  step: GraphStep,
  when: NonNullable<GraphStep['when']>,
  values: readonly (PipelineValue | undefined)[],
  { graph, errors }: { readonly graph: PipelineGraph; readonly errors: StepErrors },
  requestId: string | undefined,
): boolean {
  let wanted: unknown
  try {
    wanted = when(shownTensors(graph, step, values))
  } catch (error) {
    throw errors.ofWhen(step, undefined, error ?? new Error(String(error)), requestId)
  }
  if (typeof wanted === 'boolean') return wanted
  if (isPromise(wanted)) wanted.catch(() => {}) // what comes of it concerns nobody any more
  throw errors.ofWhen(step, wanted, undefined, requestId)
}
