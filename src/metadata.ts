import { invalidArgument } from './errors.ts'
import { isTensorType, type TensorType } from './tensor.ts'

/** One input or output as ONNX Runtime reports it. */
export interface RawValueMetadata {
  readonly name: string
  /** ONNX Runtime's type name, or a description of what is no tensor. */
  readonly type: string
  /** A number for a fixed dimension, a name (possibly '') for a symbolic one. */
  readonly shape: readonly (number | string)[]
}

/** One input or output of a loaded model. */
export interface TensorMetadata {
  readonly name: string
  readonly type: TensorType
  /** A number for a fixed dimension, a name (possibly '') for a symbolic one; the batch dimension included. */
  readonly shape: readonly (number | string)[]
}

/** What a loaded model takes and gives. */
export interface ModelMetadata {
  readonly name: string
  /** Of its file; '' for a model that was given as bytes. */
  readonly path: string
  readonly inputs: readonly TensorMetadata[]
  /** The outputs that can be served. */
  readonly outputs: readonly TensorMetadata[]
  /** Outputs the model has but the Node binding cannot carry, with their types. */
  readonly unservableOutputs: readonly { readonly name: string; readonly type: string }[]
  /** Most rows in one run; 0 for a model without a batch dimension. */
  readonly maxBatchSize: number
}

/** The batch size of a batchable model whose configuration names none. */
export const defaultMaxBatchSize = 32

/**
 * Splits what ONNX Runtime reports into what can be served and what can't.
 *
 * @throws InferenceError `ERR_MODEL_LOAD` when an input, or every output, is of a type the Node binding cannot carry.
 */
export function servable(
  model: string,
  inputs: readonly RawValueMetadata[],
  outputs: readonly RawValueMetadata[],
): Pick<ModelMetadata, 'inputs' | 'outputs' | 'unservableOutputs'> {
  for (const { name, type } of inputs) {
    if (isTensorType(type)) continue
    throw invalidArgument(`input '${name}'`, 'a tensor type that onnxruntime-node can carry', type, {
      code: 'ERR_MODEL_LOAD',
      model,
      hint: 'Re-export the model with this input as a tensor of a supported type, or cast it inside the graph',
    })
  }
  const isServable = (value: RawValueMetadata): value is TensorMetadata => isTensorType(value.type)
  const unservableOutputs = outputs.filter((output) => !isServable(output)).map(({ name, type }) => ({ name, type }))
  const served = outputs.filter(isServable)
  if (served.length === 0) {
    const types = unservableOutputs.map(({ name, type }) => `'${name}' (${type})`)
    throw invalidArgument('outputs', 'at least one tensor that onnxruntime-node can carry', types, {
      code: 'ERR_MODEL_LOAD',
      model,
      hint: 'Re-export the model with a tensor output, for a scikit-learn classifier without ZipMap',
    })
  }
  return { inputs: inputs as readonly TensorMetadata[], outputs: served, unservableOutputs }
}

/**
 * Whether rows of different requests may share a run: each input and output has a symbolic first dimension, the same
 * one everywhere, and it occurs nowhere else (a model of pairwise distances has it twice). Dimensions without names
 * count as the same one only if all other dimensions are fixed. When in doubt the answer is no: unbatched is slower,
 * wrongly batched is wrong.
 */
export function isBatchable({ inputs, outputs }: Pick<ModelMetadata, 'inputs' | 'outputs'>): boolean {
  const shapes = [...inputs, ...outputs].map(({ shape }) => shape)
  const batch = shapes[0]?.[0]
  if (inputs.length === 0 || typeof batch !== 'string') return false
  return shapes.every(
    ([first, ...rest]) =>
      first === batch && (batch === '' ? rest.every((dim) => typeof dim === 'number') : !rest.includes(batch)),
  )
}

/**
 * Checks a configured batch size against the model.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` when rows cannot be stacked on a fixed or absent first dimension.
 */
export function checkBatchDimension(model: string, maxBatchSize: number, metadata: Pick<ModelMetadata, 'inputs' | 'outputs'>): void {
  if (maxBatchSize === 0) return
  if (metadata.inputs.length === 0) {
    throw invalidArgument('maxBatchSize', '0 for a model without inputs', maxBatchSize, { code: 'ERR_MODEL_CONFIG', model })
  }
  for (const { name, shape } of [...metadata.inputs, ...metadata.outputs]) {
    if (typeof shape[0] === 'string' || (maxBatchSize === 1 && shape[0] === 1)) continue
    throw invalidArgument('maxBatchSize', `0, since '${name}' has the fixed shape [${shape.join(', ')}]`, maxBatchSize, {
      code: 'ERR_MODEL_CONFIG',
      model,
      hint: 'Export the model with a symbolic first dimension to batch it',
    })
  }
}
