import type { ElementType } from '../../tensor/tensor.ts'
import { elementTypes, tritonType } from '../../features/triton-repository/data-types.ts'

/**
 * The protocol's name of a type of elements. Those that it has none for, floats of 8 bits and integers of 4, have their own in
 * capitals: `FLOAT8E4M3FN`, `INT4`.
 */
export function datatypeOf(type: string): string {
  if (type === 'string') return 'BYTES'
  return tritonType(type)?.slice('TYPE_'.length) ?? type.toUpperCase()
}

const own: readonly ElementType[] = [
  'float8e4m3fn',
  'float8e4m3fnuz',
  'float8e5m2',
  'float8e5m2fnuz',
  'int4',
  'uint4',
]
const types = new Map<string, ElementType>(
  [...Object.values(elementTypes), ...own].map((type) => [datatypeOf(type), type]),
)

/** The reverse; `undefined` for what is none. */
export function typeOfDatatype(datatype: string): ElementType | undefined {
  return types.get(datatype)
}

/** All of them, for a message. */
export const datatypes: readonly string[] = [...types.keys()]

const binaryOnly: ReadonlySet<ElementType> = new Set<ElementType>(['float16', 'bfloat16', ...own])

/** Whether its elements travel as bytes only: JSON has no such numbers. */
export function isBinaryOnly(type: ElementType): boolean {
  return binaryOnly.has(type)
}
