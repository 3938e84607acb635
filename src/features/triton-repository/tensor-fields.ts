import type { TensorConfig } from '../../options/tensor-config.ts'
import type { ConfigFields } from './config-fields.ts'
import { elementTypes } from './data-types.ts'
import { checkFileName } from './file-names.ts'

/** A file of labels: the output that it belongs to, by its place in the configuration. */
export interface LabelFile {
  readonly output: number
  readonly name: string
  readonly fields: ConfigFields
}

const tensorRt = 'It is for TensorRT only: leave it out'

/** Reads `input`; `optional` gets the names of those that a request may leave out. */
export function readInputs(config: ConfigFields): { inputs: TensorConfig[]; optional: string[] } {
  const optional: string[] = []
  const inputs = config.messages('input').map((input) => {
    const tensor = readTensor(input)
    const format = input.enumerator('format')
    if (format !== undefined && format !== 'FORMAT_NONE') {
      if (tensor.dims!.length !== 3) input.fail('dims', `3 dims for ${format}`, tensor.dims)
      input.note('format', 'tensors are passed on as they are given')
    }
    if (input.boolean('optional') === true) optional.push(tensor.name)
    input.finish({
      refused: {
        is_shape_tensor: tensorRt,
        is_non_linear_format_io: tensorRt,
        allow_ragged_batch:
          'Requests of different shapes are never joined into one flat tensor; give padding in a config.ts to join them filled up to one length',
      },
    })
    return tensor
  })
  return { inputs, optional }
}

/** Reads `output`. */
export function readOutputs(config: ConfigFields): { outputs: TensorConfig[]; labelFiles: LabelFile[] } {
  const labelFiles: LabelFile[] = []
  const outputs = config.messages('output').map((output, index) => {
    const tensor = readTensor(output)
    const name = output.string('label_filename')
    if (name)
      labelFiles.push({ output: index, name: checkFileName(output, 'label_filename', name), fields: output })
    output.finish({ refused: { is_shape_tensor: tensorRt, is_non_linear_format_io: tensorRt } })
    return tensor
  })
  return { outputs, labelFiles }
}

function readTensor(tensor: ConfigFields): TensorConfig {
  const name = tensor.string('name')
  const type = tensor.enumerator('data_type')
  const dims = tensor.integers('dims')
  const reshape = tensor.message('reshape')
  if (!name) tensor.fail('name', 'the name of a tensor of the model', name)
  if (type === undefined || type === 'TYPE_INVALID')
    tensor.fail('data_type', 'a type, such as TYPE_FP32', type)
  if (dims.length === 0)
    tensor.fail('dims', 'at least one dimension, -1 for a variable one', tensor.has('dims') ? [] : undefined)
  const read = {
    name,
    type: elementTypes[type]!,
    dims,
    ...(reshape === undefined ? {} : { reshape: reshape.integers('shape') }),
  }
  reshape?.finish()
  return read
}
