import type { FunctionOfGraph, FunctionOptions } from '../../options/function-config.ts'
import { invalidArgument } from '../../errors.ts'
import { typeNumbers } from '../../tensor/elements.ts'

/** One row of class scores. */
type Scores<Name extends string> = readonly [
  { readonly name: Name; readonly type: 'float32'; readonly dims: readonly ['classes'] },
]
type Probabilities = readonly [
  { readonly name: 'probabilities'; readonly type: 'float32'; readonly dims: readonly ['classes'] },
]

/**
 * The configuration of a function that turns `logits`, float32 `[classes]`, into `probabilities` of the same
 * dims.
 */
export function softmax(): FunctionOptions<Scores<'logits'>, Probabilities> & FunctionOfGraph {
  const shape = ['rows', 'classes']
  return {
    inputs: [{ name: 'logits', type: 'float32', dims: ['classes'] }],
    outputs: [{ name: 'probabilities', type: 'float32', dims: ['classes'] }],
    graph: onnxModel({
      inputs: [{ name: 'logits', type: 'float32', shape }],
      outputs: [{ name: 'probabilities', type: 'float32', shape }],
      nodes: [{ operator: 'Softmax', inputs: ['logits'], outputs: ['probabilities'] }],
      constants: [],
    }),
  }
}

/** Options of {@link topK} and {@link classification}. */
export interface TopKOptions {
  /** Number of classes to return. A request with fewer classes fails. Default 1. */
  count?: number
}

/** {@link TopKOptions} with class names. */
export interface LabelledTopKOptions extends TopKOptions {
  /** The name of each class, by index. The output `labels` has them. */
  labels: readonly string[]
}

type Values = { readonly name: 'values'; readonly type: 'float32'; readonly dims: readonly number[] }
type Indices = { readonly name: 'indices'; readonly type: 'int64'; readonly dims: readonly number[] }
type Labels = { readonly name: 'labels'; readonly type: 'string'; readonly dims: readonly number[] }
type TopK<Name extends string> = FunctionOptions<Scores<Name>, readonly [Values, Indices]> & FunctionOfGraph
type LabelledTopK<Name extends string> = FunctionOptions<Scores<Name>, readonly [Values, Indices, Labels]> &
  FunctionOfGraph

/**
 * The configuration of a function that returns the `count` highest of `scores`, float32 `[classes]`, the
 * highest first: their `values`, their `indices` and, if the classes have names, their `labels`.
 *
 * @throws InferenceError `ERR_INVALID_ARG` if the count is not an integer of at least 1.
 */
export function topK(options: LabelledTopKOptions): LabelledTopK<'scores'>
export function topK(options?: TopKOptions): TopK<'scores'>
export function topK(options: Partial<LabelledTopKOptions> = {}): TopK<'scores'> | LabelledTopK<'scores'> {
  return declared('scores', options, [])
}

/** {@link topK} of the {@link softmax} of `logits`: turns the output of a classifier's head into classes. */
export function classification(options: LabelledTopKOptions): LabelledTopK<'logits'>
export function classification(options?: TopKOptions): TopK<'logits'>
export function classification(
  options: Partial<LabelledTopKOptions> = {},
): TopK<'logits'> | LabelledTopK<'logits'> {
  return declared('logits', options, [{ operator: 'Softmax', inputs: ['logits'], outputs: ['scores'] }])
}

function declared<Name extends string>(
  name: Name,
  { count = 1, labels }: Partial<LabelledTopKOptions>,
  before: readonly GraphNode[],
): TopK<Name> | LabelledTopK<Name> {
  if (!Number.isSafeInteger(count) || count < 1)
    throw invalidArgument('count', 'a whole number of at least 1', count)
  if (labels !== undefined && !labels.every((label) => typeof label === 'string'))
    throw invalidArgument('labels', 'an array of strings', labels)
  const shape = ['rows', count]
  const graph = onnxModel({
    inputs: [{ name, type: 'float32', shape: ['rows', 'classes'] }],
    outputs: [
      { name: 'values', type: 'float32', shape },
      { name: 'indices', type: 'int64', shape },
      ...(labels === undefined ? [] : [{ name: 'labels', type: 'string', shape } as const]),
    ],
    nodes: [
      ...before,
      { operator: 'TopK', inputs: ['scores', 'count'], outputs: ['values', 'indices'] },
      ...(labels === undefined
        ? []
        : [{ operator: 'Gather', inputs: ['names', 'indices'], outputs: ['labels'] }]),
    ],
    constants: [
      { name: 'count', int64: [count] },
      ...(labels === undefined ? [] : [{ name: 'names', strings: labels }]),
    ],
  })
  const inputs = [{ name, type: 'float32', dims: ['classes'] }] as const
  const outputs = [
    { name: 'values', type: 'float32', dims: [count] },
    { name: 'indices', type: 'int64', dims: [count] },
  ] as const
  return labels === undefined
    ? { inputs, outputs, graph }
    : { inputs, outputs: [...outputs, { name: 'labels', type: 'string', dims: [count] }], graph }
}

/** The oldest versions with the operators used here. Every supported ONNX Runtime has them. */
const irVersion = 7
const opsetVersion = 13

type GraphType = 'float32' | 'int64' | 'string'

/** An input or output of a graph. A dimension is a number or a name. */
interface GraphValue {
  readonly name: string
  readonly type: GraphType
  readonly shape: readonly (number | string)[]
}

/** A call of an operator without attributes. */
interface GraphNode {
  readonly operator: string
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
}

/** A constant. */
type GraphConstant = { readonly name: string } & (
  | { readonly int64: readonly number[] }
  | { readonly strings: readonly string[] }
)

/** A graph of some operators. */
interface Graph {
  readonly inputs: readonly GraphValue[]
  readonly outputs: readonly GraphValue[]
  readonly nodes: readonly GraphNode[]
  readonly constants: readonly GraphConstant[]
}

/** The bytes of an ONNX model. This writes only the protobuf messages that such a graph needs. */
function onnxModel({ inputs, outputs, nodes, constants }: Graph): Uint8Array {
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
  const isInt64 = 'int64' in constant
  const values = isInt64
    ? constant.int64.map((value) => number(7, value))
    : constant.strings.map((value) => text(6, value))
  const type = typeNumbers[isInt64 ? 'int64' : 'string']
  return [number(1, values.length), number(2, type), ...values, text(8, constant.name)]
}

function valueInfo({ name, type, shape }: GraphValue): number[][] {
  const dims = shape.map((dim) => message(1, [typeof dim === 'number' ? number(1, dim) : text(2, dim)]))
  return [text(1, name), message(2, [message(1, [number(1, typeNumbers[type]), message(2, dims)])])]
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
