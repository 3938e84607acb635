/** The bits of the IEEE 754 binary16 number nearest to `value`, ties to even. */
export function toFloat16Bits(value: number): number {
  if (Number.isNaN(value)) return 0x7e00
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0
  const magnitude = Math.abs(value)
  if (magnitude >= 65520) return sign | 0x7c00
  // In units of the last place the number is 1024..2048, below the smallest normal number 0..1024. Either way the units
  // added to the exponent's place give the bits, a carry included.
  const exponent = Math.max(Math.floor(Math.log2(magnitude)), -14)
  const exact = magnitude / 2 ** (exponent - 10)
  const nearest = Math.round(exact)
  const units = nearest - exact === 0.5 && nearest % 2 === 1 ? nearest - 1 : nearest
  return sign | ((exponent + 14) * 1024 + units)
}

/** The number that 16 bits of an IEEE 754 binary16 number stand for. */
export function fromFloat16Bits(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25)
}
