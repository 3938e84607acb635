import protobuf from 'protobufjs'

/** Bytes of a message out of its fields, which need not be those of any schema. */
export const message = (...fields: readonly Uint8Array[]): Uint8Array => Buffer.concat(fields)

/** A field: a number, or what a length stands before (text, bytes, or a message). */
export function field(number: number, value: number | string | Uint8Array): Uint8Array {
  const writer = protobuf.Writer.create()
  if (typeof value === 'number')
    return writer
      .uint32(number * 8)
      .int64(value)
      .finish()
  writer.uint32(number * 8 + 2)
  return (typeof value === 'string' ? writer.string(value) : writer.bytes(value)).finish()
}

/** The beginning of a field of so many bytes, without them. */
export function head(number: number, byteLength: number): Uint8Array {
  return protobuf.Writer.create()
    .uint32(number * 8 + 2)
    .uint64(byteLength)
    .finish()
}

/** A tensor's type; `null` for a shape that is not told. */
export function tensorType(code: number, dims: readonly (number | string)[] | null): Uint8Array {
  const shape = dims?.map((dim) =>
    field(1, typeof dim === 'number' ? field(1, dim) : dim === '' ? message() : field(2, dim)),
  )
  return field(1, message(field(1, code), ...(shape === undefined ? [] : [field(2, message(...shape))])))
}

/** An input or output. */
export const value = (name: string, type: Uint8Array): Uint8Array => message(field(1, name), field(2, type))

/** A model of a graph. */
export const model = (...graph: readonly Uint8Array[]): Uint8Array =>
  message(field(1, 8), field(7, message(...graph)), field(8, field(2, 17)))
