import type { OnnxModel } from './read-graph.ts'

/** What the graph says of its rows. */
export interface RowProof {
  readonly verdict: 'proved' | 'meets' | 'unknown'
  /** The first node at which it breaks (`meets`) or that was not followed (`unknown`); `null` where none is at fault. */
  readonly node: string | null
  /** Why, in words. */
  readonly reason: string
}

/** What is asked: which inputs and outputs count rows, and where. */
export interface RowQuestion {
  readonly inputs: readonly { readonly name: string; readonly shape: readonly (number | string)[]; readonly batchAxis: number }[]
  readonly outputs: readonly { readonly name: string; readonly batchAxis: number }[]
}

/** Proves from the graph that joining requests changes no answer. */
export function proveRows(_model: OnnxModel, _question: RowQuestion): RowProof {
  return { verdict: 'unknown', node: null, reason: 'its graph is not followed yet' }
}
