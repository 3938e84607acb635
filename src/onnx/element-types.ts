/** `TensorProto.DataType` by number: the name that ONNX Runtime's types have here, and the bits of an element. */
const elementTypes: readonly (readonly [name: string, bits: number])[] = [
  ['undefined', 0], ['float32', 32], ['uint8', 8], ['int8', 8], ['uint16', 16], ['int16', 16], ['int32', 32], ['int64', 64],
  ['string', 0], ['bool', 8], ['float16', 16], ['float64', 64], ['uint32', 32], ['uint64', 64], ['complex64', 64], ['complex128', 128],
  ['bfloat16', 16], ['float8e4m3fn', 8], ['float8e4m3fnuz', 8], ['float8e5m2', 8], ['float8e5m2fnuz', 8], ['uint4', 4], ['int4', 4],
  ['float4e2m1', 4], ['float8e8m0', 8], ['uint2', 2], ['int2', 2],
] // prettier-ignore

/** What a type is called that the file does not name. */
export const untold = 'undefined'

export function elementName(code: number): string {
  return elementTypes[code]?.[0] ?? `element type ${code}`
}

/** Bytes that so many elements take; 0 for strings, and for types that are not known. */
export function elementBytes(code: number, count: number): number {
  return Math.ceil((count * (elementTypes[code]?.[1] ?? 0)) / 8)
}
