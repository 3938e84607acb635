import { proveRows, type RowProof, type RowQuestion } from '../../src/onnx/row-proof/prove-rows.ts'
import { readGraph } from '../../src/onnx/row-proof/read-graph.ts'
import { batchAxisOf, type GraphInput, type GraphText } from './graph-text.ts'

/** How much of the inputs' shapes is known: all but the batch, or nothing but their ranks. */
export type KnownDims = 'all' | 'none'

/** What the graph says of its rows. */
export function proofOf(graph: GraphText, known: KnownDims = 'all'): RowProof {
  return proveRows(readGraph(graph.model)!, questionOf(graph, known))
}

export function questionOf({ inputs, outputs }: GraphText, known: KnownDims): RowQuestion {
  const shape = ({ name, dims }: GraphInput) =>
    dims.map((size, axis) => (known === 'all' || size === 'N' ? size : `${name}.${axis}`))
  return {
    inputs: inputs.map((input) => ({ name: input.name, shape: shape(input), batchAxis: batchAxisOf(input) })),
    outputs,
  }
}
