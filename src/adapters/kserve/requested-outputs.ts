import { invalidArgument, listNames } from '../../errors.ts'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import { isElementType } from '../../tensor/tensor.ts'
import { countIn, fieldsOf, flagIn, given, listIn, parametersIn, textIn, type Fields } from './json-fields.ts'
import { refuseSharedMemory, type TensorLimits } from './request-inputs.ts'

/** An output that a request is to be answered with, and how. */
export interface RequestedOutput {
  readonly name: string
  readonly binary: boolean
  /** How many classes, with the highest scores, are told instead of the tensor; 0 for the tensor. */
  readonly classes: number
}

/**
 * The outputs that a request asks for; all that are tensors where it names none.
 *
 * @throws InferenceError `ERR_INVALID_ARG`; HttpFailure 501 for shared memory.
 */
export function readOutputs(
  request: Fields,
  parameters: Fields,
  metadata: ModelMetadata,
  { maxTensors, maxNameLength }: TensorLimits,
): readonly RequestedOutput[] {
  const binary = flagIn(parameters, 'binary_data_output', 'parameters.') ?? false
  const outputs = listIn(request, 'outputs', '', maxTensors) ?? []
  const names = metadata.outputs.filter(({ type }) => isElementType(type)).map(({ name }) => name)
  if (outputs.length === 0) return allOutputs(metadata, names, binary)
  return outputs.map((each, index) => {
    const where = `outputs[${index}]`
    const output = fieldsOf(where, each)
    const own = parametersIn(output, `${where}.`)
    refuseSharedMemory(own, where)
    const name = given(
      textIn(output, 'name', `${where}.`, maxNameLength),
      `${where}.name`,
      'the name of an output',
    )
    if (!names.includes(name))
      throw invalidArgument(`${where}.name`, `a tensor out of ${listNames(names)}`, name, {
        model: metadata.name,
      })
    return {
      name,
      binary: flagIn(own, 'binary_data', `${where}.parameters.`) ?? binary,
      classes: countIn(own, 'classification', `${where}.parameters.`) ?? 0,
    }
  })
}

/** All tensors of a model; what is none, as a classifier's maps, the protocol cannot tell of. */
export function allOutputs(
  metadata: ModelMetadata,
  names: readonly string[],
  binary: boolean,
): readonly RequestedOutput[] {
  if (names.length > 0) return names.map((name) => ({ name, binary, classes: 0 }))
  throw invalidArgument(
    'outputs',
    'a model with an output that is a tensor',
    metadata.outputs.map(({ type }) => type),
    { model: metadata.name },
  )
}
