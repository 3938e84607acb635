import type { ElementType } from './tensor.ts'

/** Floats of 8 and 16 bits, which JavaScript has as bits only. */
export type SmallFloat = Exclude<Extract<ElementType, `${'' | 'b'}float${string}`>, 'float32' | 'float64'>

interface Format {
  readonly fractionBits: number
  readonly bias: number
  readonly signBit: number
  /** The largest finite number. */
  readonly largest: number
  /** What a number that is larger becomes: infinity where the format has it, else NaN. */
  readonly overflow: number
  readonly nan: number
  /** Whether it has a negative zero. */
  readonly signedZero: boolean
}

const formats: Readonly<Record<SmallFloat, Format>> = {
  float16: { fractionBits: 10, bias: 15, signBit: 0x8000, largest: 0x7bff, overflow: 0x7c00, nan: 0x7e00, signedZero: true },
  bfloat16: { fractionBits: 7, bias: 127, signBit: 0x8000, largest: 0x7f7f, overflow: 0x7f80, nan: 0x7fc0, signedZero: true },
  float8e4m3fn: { fractionBits: 3, bias: 7, signBit: 0x80, largest: 0x7e, overflow: 0x7f, nan: 0x7f, signedZero: true },
  float8e4m3fnuz: { fractionBits: 3, bias: 8, signBit: 0x80, largest: 0x7f, overflow: 0x80, nan: 0x80, signedZero: false },
  float8e5m2: { fractionBits: 2, bias: 15, signBit: 0x80, largest: 0x7b, overflow: 0x7c, nan: 0x7f, signedZero: true },
  float8e5m2fnuz: { fractionBits: 2, bias: 16, signBit: 0x80, largest: 0x7f, overflow: 0x80, nan: 0x80, signedZero: false },
} // prettier-ignore

export function isSmallFloat(type: string): type is SmallFloat {
  return Object.hasOwn(formats, type)
}

/** Significant bits of a type, the leading one included. */
export function significantBits(type: SmallFloat): number {
  return formats[type].fractionBits + 1
}

/** The largest finite number of a type. */
export function largestFloat(type: SmallFloat): number {
  return fromSmallFloat(type, formats[type].largest)
}

/** Whether bits stand for NaN or infinity. */
export function isNonFinite(type: SmallFloat, bits: number): boolean {
  if (type === 'float16') return (bits & 0x7c00) === 0x7c00 // without a look at the table: inputs of requests are checked so
  const { signBit, largest, nan, signedZero } = formats[type]
  return signedZero ? (bits & (signBit - 1)) > largest : bits === nan
}

/** The number that bits stand for. */
export function fromSmallFloat(type: SmallFloat, bits: number): number {
  const { fractionBits, bias, signBit, overflow, nan } = formats[type]
  const magnitude = bits & (signBit - 1)
  const sign = bits & signBit ? -1 : 1
  if (isNonFinite(type, bits)) return magnitude === overflow && overflow !== nan ? sign * Infinity : NaN
  const exponent = magnitude >> fractionBits
  const fraction = magnitude & (2 ** fractionBits - 1)
  const units = exponent === 0 ? fraction : 2 ** fractionBits + fraction
  return sign * units * 2 ** (Math.max(exponent, 1) - bias - fractionBits)
}

/** The bits of the number nearest to `value`, ties to even. Beyond the largest it is infinity, or NaN where there is none. */
export function toSmallFloat(type: SmallFloat, value: number): number {
  const { fractionBits, bias, signBit, largest, overflow, nan, signedZero } = formats[type]
  if (Number.isNaN(value)) return nan
  const sign = value < 0 || Object.is(value, -0) ? signBit : 0
  const magnitude = Math.abs(value)
  const exponent = Math.max(Math.floor(Math.log2(magnitude)), 1 - bias)
  const exact = magnitude / 2 ** (exponent - fractionBits)
  const nearest = Math.round(exact)
  const units = nearest - exact === 0.5 && nearest % 2 === 1 ? nearest - 1 : nearest
  const bits = (exponent + bias - 1) * 2 ** fractionBits + units
  if (!(bits <= largest)) return sign | overflow
  return bits === 0 && !signedZero ? 0 : sign | bits
}
