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
  readonly questions: readonly RowQuestion[]
}

/** How long a graph is kept for the next question, in milliseconds. */
const keptForMs = 5000

/** The file, or the buffer, whose graph was read last. */
let last: { readonly origin: string | number; readonly graph: OnnxModel | null } | null = null
let forgetting: NodeJS.Timeout | undefined

/**
 * Reads a graph, unless that is at hand, and answers what is asked of its rows.
 *
 * @param steps that the proofs may take; the answer is `null` if they take more. Left out for the limit of a proof.
 */
export default function prove(task: ProofTask, steps?: number): readonly RowProof[] | null {
  try {
    return answerQuestions(() => graphOf(task), task.questions, steps)
  } catch (error) {
    if (error instanceof TooManySteps) return null
    throw error
  }
}

function graphOf({ model, bytesId }: ProofTask): OnnxModel | null {
  const origin = typeof model === 'string' ? `${stampOf(model).anything} ${model}` : bytesId
  if (last?.origin !== origin)
    last = { origin, graph: readGraph(typeof model === 'string' ? model : new Uint8Array(model)) }
  clearTimeout(forgetting)
  forgetting = setTimeout(() => (last = null), keptForMs).unref()
  return last.graph
}
