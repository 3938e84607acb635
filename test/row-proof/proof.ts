import { proveRows, type RowProof } from '../../src/row-proof/prove-rows.ts'
import { readGraph } from '../../src/row-proof/read-graph.ts'
import { batchAxisOf, type GraphText } from './graph-text.ts'

/** How much of the inputs' shapes is known: all but the batch, or nothing but their ranks. */
export type KnownDims = 'all' | 'none'

/** What the graph says of its rows. */
export function proofOf({ model, inputs, outputs }: GraphText, known: KnownDims = 'all'): RowProof {
  const shape = (name: string, dims: readonly (number | 'N')[]) => dims.map((size, axis) => (known === 'all' || size === 'N' ? size : `${name}.${axis}`))
  return proveRows(readGraph(model)!, { inputs: inputs.map((input) => ({ name: input.name, shape: shape(input.name, input.dims), batchAxis: batchAxisOf(input) })), outputs })
}
