import { isElementType, type ElementType } from './tensor.ts'

/** Types of what is no tensor, as `'seq(map(int64, float32))'`, made up of the names of element types. */
export type StructuredType = `seq(${string})` | `map(${string})` | `optional(${string})`

/** Keys of maps: of strings, or of integers. */
export type KeyType = 'string' | 'int64'

/** What a type is made up of. */
export type ValueType =
  | { readonly kind: 'tensor'; readonly element: ElementType }
  | { readonly kind: 'seq'; readonly item: ValueType }
  | { readonly kind: 'optional'; readonly item: ValueType }
  /** Its values are numbers or strings. */
  | { readonly kind: 'map'; readonly key: KeyType; readonly value: ElementType }

/** Reads the name of a type; `null` for what cannot be carried. */
export function valueTypeOf(name: string): ValueType | null {
  if (isElementType(name)) return { kind: 'tensor', element: name }
  const [, kind, inner] = /^(seq|optional)\((.+)\)$/.exec(name) ?? []
  if (inner !== undefined) {
    const item = valueTypeOf(inner)
    return item && { kind: kind as 'seq' | 'optional', item }
  }
  const [, key, value] = /^map\((string|int64), (\w+)\)$/.exec(name) ?? []
  return isElementType(value) ? { kind: 'map', key: key as KeyType, value } : null
}
