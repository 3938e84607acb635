import type { ConfigFields } from './config-fields.ts'

/** An input or output as `config.pbtxt` describes it; the model file has the last word. */
export interface ConfiguredTensor {
  readonly name: string
  /** Triton's name for the element type, such as `TYPE_FP32`. */
  readonly dataType: string
  /** -1 for a variable dimension; without the batch dimension where `max_batch_size` is not 0. */
  readonly dims: readonly number[]
}

const dataTypes = [
  'TYPE_INVALID', 'TYPE_BOOL', 'TYPE_UINT8', 'TYPE_UINT16', 'TYPE_UINT32', 'TYPE_UINT64', 'TYPE_INT8', 'TYPE_INT16',
  'TYPE_INT32', 'TYPE_INT64', 'TYPE_FP16', 'TYPE_FP32', 'TYPE_FP64', 'TYPE_STRING', 'TYPE_BF16',
]

const rules = {
  noted: {
    format: 'tensors are passed on as they are given',
    reshape: 'requests and results have the shapes of the model file',
    label_filename: 'class labels are left to the application',
  },
  refused: {
    is_shape_tensor: 'It is for TensorRT only',
    is_non_linear_format_io: 'It is for TensorRT only',
    allow_ragged_batch: 'Requests of different shapes are never joined into one flat tensor',
    optional: 'Every request gives every input',
  },
}

/** Reads `input` or `output`. */
export function readTensors(config: ConfigFields, field: 'input' | 'output'): ConfiguredTensor[] {
  return config.messages(field).map((tensor) => {
    const read = {
      name: tensor.string('name') ?? '',
      dataType: tensor.enumerator('data_type', dataTypes) ?? 'TYPE_INVALID',
      dims: tensor.integers('dims', -1),
    }
    tensor.finish(rules)
    return read
  })
}
