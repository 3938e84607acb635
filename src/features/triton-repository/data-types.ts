import type { ElementType } from '../../tensor/tensor.ts'

/** Element types by Triton's names. */
export const elementTypes: Readonly<Record<string, ElementType>> = {
  TYPE_BOOL: 'bool',
  TYPE_UINT8: 'uint8',
  TYPE_UINT16: 'uint16',
  TYPE_UINT32: 'uint32',
  TYPE_UINT64: 'uint64',
  TYPE_INT8: 'int8',
  TYPE_INT16: 'int16',
  TYPE_INT32: 'int32',
  TYPE_INT64: 'int64',
  TYPE_FP16: 'float16',
  TYPE_FP32: 'float32',
  TYPE_FP64: 'float64',
  TYPE_STRING: 'string',
  TYPE_BF16: 'bfloat16',
}

/** Triton's name of a type; `undefined` for one that it has not. */
export function tritonType(type: string): string | undefined {
  return Object.keys(elementTypes).find((name) => elementTypes[name] === type)
}
