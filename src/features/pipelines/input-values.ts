import type { PipelineTensors } from '../../options/pipeline-config.ts'
import { batchAxisOf, type ModelMetadata } from '../../tensor/metadata.ts'
import type { ParsedFeeds } from '../../request/infer-request.ts'
import {
  makeTensor,
  putValue,
  Tensor,
  type ElementType,
  type TensorData,
  type TensorLike,
} from '../../tensor/tensor.ts'
import type { OutputValue } from '../../tensor/values.ts'
import type { GraphStep, PipelineGraph } from './pipeline-graph.ts'

/** A tensor of a request that is on its way, where nobody else sees it; `null` where it was left out. */
export type PipelineValue = TensorLike | OutputValue | null

/**
 * What a request gives for each input, as tensors that steps can be fed with; `null` for one that was left out.
 *
 * @param none as many as there are tensors, of which those of the inputs come first.
 */
export function inputValues(
  { inputs, maxBatchSize }: Pick<ModelMetadata, 'inputs' | 'maxBatchSize'>,
  { data, dims, rows, whole }: ParsedFeeds,
  none: readonly undefined[],
): (PipelineValue | undefined)[] {
  const values: (PipelineValue | undefined)[] = none.slice()
  for (let index = 0; index < inputs.length; index++) {
    const input = inputs[index]!
    const given = data[index]
    const axis = maxBatchSize > 0 && !whole ? batchAxisOf(input) : -1
    values[index] =
      given == null
        ? null
        : {
            type: input.type,
            dims: dims?.[index] ?? dimsOf(input.shape as readonly number[], axis, rows),
            data: given,
          }
  }
  return values
}

function dimsOf(fixed: readonly number[], axis: number, rows: number): readonly number[] {
  if (axis === -1) return fixed
  const dims = fixed.slice()
  dims[axis] = rows
  return dims
}

/** The tensors of a request that a step waits for, as its `when` is given them; without those that were left out. */
export function shownTensors(
  { tensors }: PipelineGraph,
  { awaits }: GraphStep,
  values: readonly (PipelineValue | undefined)[],
): PipelineTensors {
  const shown: Record<string, OutputValue> = {}
  for (const tensor of awaits) {
    const value = values[tensor]!
    if (value !== null) putValue(shown, tensors[tensor]!.name, shownValue(value))
  }
  return shown as PipelineTensors
}

/** A value as callers know it: what one step makes for another is no `Tensor` yet. */
export function shownValue(value: PipelineValue): OutputValue {
  if (value === null || value instanceof Tensor || !Array.isArray((value as Partial<TensorLike>).dims))
    return value as OutputValue
  const { type, dims, data } = value as TensorLike
  return makeTensor(type as ElementType, data as TensorData, dims)
}
