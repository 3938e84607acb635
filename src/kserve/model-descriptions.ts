import { batchAxisOf, type ValueMetadata } from '../metadata.ts'
import type { Model } from '../model.ts'
import { datatypeOf } from './datatypes.ts'

const platform = 'onnxruntime_onnx'

/** A model's metadata in the protocol's words. */
export function modelMetadata(model: Model): object {
  const { name, inputs, outputs } = model.metadata
  const described = (values: readonly ValueMetadata[]) => values.map((value) => ({ name: value.name, datatype: datatypeOf(value.type), shape: dimsOf(value.shape) }))
  return { name, versions: model.versions.map(({ version }) => String(version)), platform, inputs: described(inputs), outputs: described(outputs) }
}

/** What is in effect of a model, as Triton's configuration has it: without what came of `config.pbtxt` and is not of the protocol. */
export function modelConfig(model: Model): object {
  const { name, inputs, outputs, maxBatchSize, joining } = model.metadata
  const row = (value: ValueMetadata) => dimsOf(maxBatchSize > 0 ? value.shape.filter((_, axis) => axis !== batchAxisOf(value)) : value.shape)
  const described = (values: readonly ValueMetadata[]) => values.map((value) => ({ name: value.name, data_type: dataType(value.type), dims: row(value) }))
  return {
    name,
    platform,
    backend: 'onnxruntime',
    max_batch_size: maxBatchSize,
    input: described(inputs),
    output: described(outputs),
    ...(maxBatchSize > 0 && (joining.rows === 'independent' || joining.rows === 'declared') ? { dynamic_batching: {} } : {}),
    model_transaction_policy: { decoupled: false },
  }
}

function dataType(type: string): string {
  return type === 'string' ? 'TYPE_STRING' : `TYPE_${datatypeOf(type)}`
}

/** Dimensions that are not fixed are -1. */
function dimsOf(shape: ValueMetadata['shape']): number[] {
  return shape.map((dim) => (typeof dim === 'number' ? dim : -1))
}
