import type { FunctionOfGraph, FunctionOptions } from '../../options/function-config.ts'
import { onnxModel } from './onnx-graph.ts'

type Inputs = readonly [
  { readonly name: 'logits'; readonly type: 'float32'; readonly dims: readonly ['classes'] },
]
type Outputs = readonly [
  { readonly name: 'probabilities'; readonly type: 'float32'; readonly dims: readonly ['classes'] },
]

/** The configuration of a function that turns `logits`, float32 `[classes]`, into `probabilities` of the same dims. */
export function softmax(): FunctionOptions<Inputs, Outputs> & FunctionOfGraph {
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
