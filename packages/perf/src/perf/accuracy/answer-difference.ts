import { fromSmallFloat, isSmallFloat, isFloatType, isTensorLike, toStorage } from 'zerohop/internals'
import type { ElementType, OutputValue } from 'zerohop'

/** How much two answers differ. */
interface Difference {
  readonly absolute: number
  /** Relative to the largest number of the first answer. */
  readonly relative: number
}

const none: Difference = { absolute: 0, relative: 0 }
const all: Difference = { absolute: Infinity, relative: Infinity }

/**
 * Compares an output with the output of the same request run alone. Floats have a distance. All other values are
 * either equal or infinitely different, and so are NaN and infinity from any other number.
 */
export function answerDifference(alone: OutputValue | undefined, other: OutputValue | undefined): Difference {
  if (isTensorLike(alone) && isTensorLike(other)) {
    if (alone.type !== other.type || alone.dims.join() !== other.dims.join()) return all
    const type = alone.type as ElementType
    return elementDifference(type, valuesOf(type, alone.data), valuesOf(type, other.data))
  }
  if (Array.isArray(alone) && Array.isArray(other)) {
    return alone.length === other.length
      ? largest(alone.map((value, index) => answerDifference(value, other[index])))
      : all
  }
  if (isMapLike(alone) && isMapLike(other)) {
    const [own, others] = [entriesOf(alone), entriesOf(other)]
    if (own.length !== others.length || own.some(([key], index) => key !== others[index]![0])) return all
    const values = (entries: typeof own) => entries.map(([, value]) => value)
    return elementDifference('float32', values(own), values(others))
  }
  return alone === other ? none : all
}

/** The type of an output's elements, as text. */
export const typeOf = (value: OutputValue | undefined): string =>
  isTensorLike(value)
    ? String(value.type)
    : Array.isArray(value)
      ? 'sequence'
      : isMapLike(value)
        ? 'map'
        : 'none'

type Values = ArrayLike<number | bigint | string>

function valuesOf(type: ElementType, data: unknown): Values {
  const bits = isSmallFloat(type) ? toStorage(type, data) : null // newer Node presents float16 as numbers
  return bits === null
    ? (data as Values)
    : Array.from(bits as Uint16Array, (each) =>
        fromSmallFloat(type as Parameters<typeof fromSmallFloat>[0], each),
      )
}

function elementDifference(type: ElementType, alone: Values, other: Values): Difference {
  if (alone.length !== other.length) return all
  let absolute = 0
  let size = 0
  for (let index = 0; index < alone.length; index++) {
    const [a, b] = [alone[index]!, other[index]!]
    if (typeof a === 'number' && Number.isFinite(a)) size = Math.max(size, Math.abs(a))
    if (a === b || (a !== a && b !== b)) continue
    if (typeof a !== 'number' || typeof b !== 'number' || !isFloatType(type)) return all
    const distance = Math.abs(a - b)
    if (!(distance < Infinity)) return all
    absolute = Math.max(absolute, distance)
  }
  return absolute === 0 ? none : { absolute, relative: size === 0 ? Infinity : absolute / size }
}

function largest(differences: readonly Difference[]): Difference {
  return differences.reduce(
    (most, each) => ({
      absolute: Math.max(most.absolute, each.absolute),
      relative: Math.max(most.relative, each.relative),
    }),
    none,
  )
}

type MapLike = Map<bigint, number | bigint | string> | Record<string, number | bigint | string>

function isMapLike(value: unknown): value is MapLike {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isTensorLike(value)
}

function entriesOf(value: MapLike): [key: string | bigint, value: number | bigint | string][] {
  return value instanceof Map ? [...value] : Object.entries(value)
}
