import type { FunctionOfGraph, FunctionOptions } from '../../options/function-config.ts'
import { invalidArgument } from '../../errors.ts'
import { onnxModel, type GraphNode } from './onnx-graph.ts'

/** Options of {@link topK} and {@link classification}. */
export interface TopKOptions {
  /** How many classes; a request with fewer fails. Default 1. */
  count?: number
}

/** The same with names of the classes. */
export interface LabelledTopKOptions extends TopKOptions {
  /** The name of each class, by index; for the output `labels`. */
  labels: readonly string[]
}

type Inputs<Name extends string> = readonly [
  { readonly name: Name; readonly type: 'float32'; readonly dims: readonly ['classes'] },
]
type Values = { readonly name: 'values'; readonly type: 'float32'; readonly dims: readonly number[] }
type Indices = { readonly name: 'indices'; readonly type: 'int64'; readonly dims: readonly number[] }
type Labels = { readonly name: 'labels'; readonly type: 'string'; readonly dims: readonly number[] }
type TopK<Name extends string> = FunctionOptions<Inputs<Name>, readonly [Values, Indices]> & FunctionOfGraph
type LabelledTopK<Name extends string> = FunctionOptions<Inputs<Name>, readonly [Values, Indices, Labels]> &
  FunctionOfGraph

/**
 * The configuration of a function that gives the `count` highest of `scores`, float32 `[classes]`: their `values`, `indices` and,
 * where they have names, `labels`, the highest first.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for a count that is no whole number of at least 1.
 */
export function topK(options: LabelledTopKOptions): LabelledTopK<'scores'>
export function topK(options?: TopKOptions): TopK<'scores'>
export function topK(options: Partial<LabelledTopKOptions> = {}): TopK<'scores'> | LabelledTopK<'scores'> {
  return declared('scores', options, [])
}

/** As {@link topK} of the {@link softmax} of `logits`: what a classifier's head gives, as classes. */
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
