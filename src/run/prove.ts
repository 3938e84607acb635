import { stampOf } from '../base/files.ts'
import { TooManySteps } from '../onnx/row-proof/dims.ts'
import { answerQuestions, type RowProof, type RowQuestion } from '../onnx/row-proof/prove-rows.ts'
import type { OnnxModel } from '../onnx/row-proof/onnx-model.ts'
import { readGraph } from '../onnx/row-proof/read-graph.ts'

/** A question about the graph of a model. */
export interface ProofTask {
  readonly model: string | SharedArrayBuffer
  /** See {@link bytesId}; 0 for a path. */
  readonly bytesId: number
  /** In turn, until one is proved. None: the graph is read ahead. */
  readonly questions: readonly RowQuestion[]
}

/** How long a graph is kept for the next question, in milliseconds, and how many of them. */
const keptForMs = 5000
const mostKept = 8

/** By the file, or the buffer, that they were read from; those that took too many steps in place of their graph. */
const kept = new Map<string | number, OnnxModel | null | TooManySteps>()
let forgetting: NodeJS.Timeout | undefined

/**
 * Reads a graph, unless that is at hand, and answers what is asked of its rows.
 *
 * @param steps that the answer may take; left out for the limit of a proof.
 * @returns `null` if the graph has taken more than `steps`, now or before.
 */
export function prove({ model, bytesId, questions }: ProofTask, steps?: number): readonly RowProof[] | null {
  const origin = typeof model === 'string' ? `${stampOf(model).anything} ${model}` : bytesId
  const read = (): OnnxModel | null => {
    const known = kept.get(origin)
    if (known !== undefined && !(known instanceof TooManySteps)) return known
    if (known !== undefined && steps !== undefined) throw known
    const graph = readGraph(typeof model === 'string' ? model : new Uint8Array(model))
    keep(origin, graph)
    return graph
  }
  try {
    return answerQuestions(read, questions, steps)
  } catch (error) {
    if (!(error instanceof TooManySteps)) throw error
    keep(origin, error)
    return null
  }
}

function keep(origin: string | number, graph: OnnxModel | null | TooManySteps): void {
  kept.delete(origin)
  kept.set(origin, graph)
  if (kept.size > mostKept) kept.delete(kept.keys().next().value!)
  clearTimeout(forgetting)
  forgetting = setTimeout(() => kept.clear(), keptForMs).unref()
}
