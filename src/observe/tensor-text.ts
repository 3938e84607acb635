import { unpacked, elementCount, isElementType, isPacked, type ElementType } from '../tensor/tensor.ts'
import { fromSmallFloat, isSmallFloat } from '../tensor/small-floats.ts'

/** Triton's names of types of elements; others are the type's own in capitals. */
const names: Partial<Record<ElementType, string>> = {
  float16: 'FP16',
  float32: 'FP32',
  float64: 'FP64',
  bfloat16: 'BF16',
  string: 'BYTES',
}

/** The `"tensor"` of a record: data as text, elements with commas between, strings each as JSON has them. */
export function tensorText(name: string, type: string, dims: readonly number[], data: unknown): string {
  const isTensor = isElementType(type) && (ArrayBuffer.isView(data) || Array.isArray(data))
  const dtype = isElementType(type) ? (names[type] ?? type.toUpperCase()) : type
  const text = isTensor ? elementsText(type, dims, data) : JSON.stringify(data, plain)
  return `{"name":${JSON.stringify(name)},"data":${JSON.stringify(text)},"shape":"${isTensor ? dims.join(',') : ''}","dtype":"${dtype}"}`
}

/** Roughly how long that text is, without making it. */
export function tensorTextBytes(data: unknown): number {
  if (ArrayBuffer.isView(data)) return (data as Uint8Array).length * 8
  if (!Array.isArray(data)) return 0
  return data.reduce<number>(
    (sum, item) => sum + (typeof item === 'string' ? item.length : 0),
    data.length * 3,
  )
}

function elementsText(
  type: ElementType,
  dims: readonly number[],
  data: ArrayBufferView | readonly unknown[],
): string {
  if (Array.isArray(data)) return data.map((item) => JSON.stringify(item)).join(',')
  if (isPacked(type)) return unpacked(type, data as Uint8Array, elementCount(dims)).join(',')
  const hasBits = isSmallFloat(type) && (data instanceof Uint16Array || data instanceof Uint8Array) // newer Node has numbers
  const numbers = hasBits
    ? Float64Array.from(data, (bits) => fromSmallFloat(type, bits))
    : (data as Float32Array | BigInt64Array)
  const hasZeros = type.includes('float') && (numbers as Float32Array).includes(0)
  return hasZeros
    ? Array.from(numbers as Float32Array, numberText).join(',')
    : (numbers as Float32Array).join(',')
}

/** As JavaScript has it, with the sign of a zero. */
function numberText(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value)
}

/** What is no tensor: numbers that JSON has not as text, arrays and maps of any kind as JSON's. */
function plain(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
  if (value instanceof Map) return Object.fromEntries(value)
  return ArrayBuffer.isView(value) ? Array.from(value as Float32Array) : value
}
