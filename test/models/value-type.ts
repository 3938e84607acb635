import { elementTypeCode } from './element-type.ts'
import type { ElementType } from './element-type.ts'
import type { TypeProto } from './proto.ts'

/** A shape: numbers are fixed sizes, strings are symbolic names, `null` is a dimension without size or name. */
export type Dims = readonly (number | string | null)[]

/** The type of a tensor; without `dims` its rank is unknown, with `[]` it is a scalar. */
export function tensor(type: ElementType, dims?: Dims): TypeProto {
  const elemType = elementTypeCode[type]
  if (dims === undefined) return { tensorType: { elemType } }
  const dim = dims.map((size) => {
    if (size === null) return {}
    return typeof size === 'number' ? { dimValue: size } : { dimParam: size }
  })
  return { tensorType: { elemType, shape: { dim } } }
}

/** The type of a sequence of values. */
export const sequence = (element: TypeProto): TypeProto => ({ sequenceType: { elemType: element } })

/** The type of a map from a scalar key to a value. */
export const map = (key: ElementType, value: TypeProto): TypeProto => ({
  mapType: { keyType: elementTypeCode[key], valueType: value },
})

/** The type of a value that may be absent. */
export const optional = (element: TypeProto): TypeProto => ({ optionalType: { elemType: element } })
