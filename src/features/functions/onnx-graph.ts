import type { TensorType } from '../../tensor/tensor.ts'

/** Numbers of element types in ONNX's schema. */
const elementTypes = { float32: 1, int64: 7, string: 8 } as const satisfies Partial<
  Record<TensorType, number>
>
/** The oldest versions with the operators used here; every ONNX Runtime that is served with has them. */
const irVersion = 7
const opsetVersion = 13

type GraphType = keyof typeof elementTypes

/** An input or output of a graph; a dimension is fixed, or has a name. */
export interface GraphValue {
  readonly name: string
  readonly type: GraphType
  readonly shape: readonly (number | string)[]
}

/** A call of an operator, without attributes. */
export interface GraphNode {
  readonly operator: string
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
}

/** A constant. */
export type GraphConstant = { readonly name: string } & (
  | { readonly int64: readonly number[] }
  | { readonly strings: readonly string[] }
)

/** A graph of some operators. */
export interface Graph {
  readonly inputs: readonly GraphValue[]
  readonly outputs: readonly GraphValue[]
  readonly nodes: readonly GraphNode[]
  readonly constants: readonly GraphConstant[]
}

/** The bytes of an ONNX model: protobuf, of which no more is written than these few messages need. */
export function onnxModel({ inputs, outputs, nodes, constants }: Graph): Uint8Array {
  const graph = [
    ...nodes.map(({ operator, inputs: from, outputs: to }) =>
      message(1, [
        ...from.map((name) => text(1, name)),
        ...to.map((name) => text(2, name)),
        text(4, operator),
      ]),
    ),
    text(2, 'function'),
    ...constants.map((constant) => message(5, tensor(constant))),
    ...inputs.map((value) => message(11, valueInfo(value))),
    ...outputs.map((value) => message(12, valueInfo(value))),
  ]
  return Uint8Array.from([
    ...number(1, irVersion),
    ...message(7, graph),
    ...message(8, [text(1, ''), number(2, opsetVersion)]),
  ])
}

function tensor(constant: GraphConstant): number[][] {
  const { name } = constant
  if ('int64' in constant)
    return [
      number(1, constant.int64.length),
      number(2, elementTypes.int64),
      ...constant.int64.map((value) => number(7, value)),
      text(8, name),
    ]
  return [
    number(1, constant.strings.length),
    number(2, elementTypes.string),
    ...constant.strings.map((value) => text(6, value)),
    text(8, name),
  ]
}

function valueInfo({ name, type, shape }: GraphValue): number[][] {
  const dims = shape.map((dim) => message(1, [typeof dim === 'number' ? number(1, dim) : text(2, dim)]))
  return [text(1, name), message(2, [message(1, [number(1, elementTypes[type]), message(2, dims)])])]
}

function message(field: number, parts: readonly number[][]): number[] {
  const bytes = parts.flat()
  return [...varint(field * 8 + 2), ...varint(bytes.length), ...bytes]
}

function text(field: number, value: string): number[] {
  const bytes = new TextEncoder().encode(value)
  return [...varint(field * 8 + 2), ...varint(bytes.length), ...bytes]
}

function number(field: number, value: number): number[] {
  return [...varint(field * 8), ...varint(value)]
}

function varint(value: number): number[] {
  const bytes: number[] = []
  let rest = value
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
  bytes.push(rest)
  return bytes
}
