/** ONNX element types by the names onnxruntime uses, with the numbers of `TensorProto.DataType`. */
export const elementTypeCode = {
  float32: 1,
  uint8: 2,
  int8: 3,
  uint16: 4,
  int16: 5,
  int32: 6,
  int64: 7,
  string: 8,
  bool: 9,
  float16: 10,
  float64: 11,
  uint32: 12,
  uint64: 13,
  bfloat16: 16,
  float8e4m3fn: 17,
  float8e4m3fnuz: 18,
  float8e5m2: 19,
  float8e5m2fnuz: 20,
  uint4: 21,
  int4: 22,
} as const

/** The name of an element type. */
export type ElementType = keyof typeof elementTypeCode

/** Elements as one writes them down; typed arrays are taken as the raw bytes of the tensor. */
export type ElementData = NodeJS.TypedArray | readonly number[] | readonly bigint[] | readonly string[]

const fromNumbers = {
  float32: Float32Array,
  uint8: Uint8Array,
  int8: Int8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  int32: Int32Array,
  bool: Uint8Array,
  float64: Float64Array,
  uint32: Uint32Array,
  // Bit patterns, and packed elements: JavaScript (Node 20) has no number type for these.
  float16: Uint16Array,
  bfloat16: Uint16Array,
  float8e4m3fn: Uint8Array,
  float8e4m3fnuz: Uint8Array,
  float8e5m2: Uint8Array,
  float8e5m2fnuz: Uint8Array,
  uint4: Uint8Array,
  int4: Uint8Array,
} as const

/**
 * The little-endian bytes of a tensor's elements. Numbers are converted to the element type; 16-bit and 8-bit
 * floats are given as bit patterns and 4-bit integers as bytes of two elements each, low half first.
 */
export function elementBytes(type: Exclude<ElementType, 'string'>, data: ElementData): Uint8Array {
  const array = ArrayBuffer.isView(data) ? data : typedArray(type, data)
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
}

function typedArray(
  type: Exclude<ElementType, 'string'>,
  data: readonly (number | bigint | string)[],
): NodeJS.TypedArray {
  if (type === 'int64') return BigInt64Array.from(data, BigInt)
  if (type === 'uint64') return BigUint64Array.from(data, BigInt)
  return fromNumbers[type].from(Array.from(data, Number))
}
