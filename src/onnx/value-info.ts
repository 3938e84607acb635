import { elementName, untold } from './element-types.ts'
import type { Dimension, Messages, TypeProto } from './onnx-schema.ts'

/** An input or output as a model file declares it. */
export interface DeclaredValue {
  readonly name: string
  /** As in `ValueMetadata`; `'undefined'` where the file does not say. */
  readonly type: string
  /** As in `ValueMetadata`; `null` where the file does not say it. */
  readonly shape: readonly (number | string)[] | null
}

/** What a file says of an input or output, in the words of this library. */
export function declaredValue({ name, type }: Messages['ValueInfoProto']): DeclaredValue {
  const called = typeName(type)
  const { tensorType } = type ?? {}
  if (tensorType !== undefined)
    return { name, type: called, shape: tensorType.shape?.dim.map(dimension) ?? null }
  return { name, type: called, shape: called === untold ? null : [] }
}

function typeName(type: TypeProto | null): string {
  if (type === null) return untold
  const { tensorType, sequenceType, mapType, optionalType, sparseTensorType, opaqueType } = type
  if (tensorType !== undefined) return elementName(tensorType.elemType)
  if (sequenceType !== undefined) return `seq(${typeName(sequenceType.elemType)})`
  if (optionalType !== undefined) return `optional(${typeName(optionalType.elemType)})`
  if (mapType !== undefined) return `map(${elementName(mapType.keyType)}, ${typeName(mapType.valueType)})`
  if (sparseTensorType !== undefined) return 'a sparse tensor'
  return opaqueType === undefined ? untold : 'an opaque value'
}

/** ONNX Runtime leaves out values below 0, and takes them for unknown. */
function dimension({ dimValue, dimParam }: Dimension): number | string {
  return dimValue !== undefined && dimValue >= 0 ? dimValue : (dimParam ?? '')
}
