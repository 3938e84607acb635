import type { ProofAnswer, ProofTask } from '../executors/protocol.ts'
import { stampOf } from '../../base/files.ts'
import { answerQuestions } from '../../onnx/row-proof/prove-rows.ts'
import type { OnnxModel } from '../../onnx/row-proof/onnx-model.ts'
import { readGraph } from '../../onnx/row-proof/read-graph.ts'

/** How long a graph is kept for the next question, in milliseconds. */
const keptForMs = 5000

/** The file, or the buffer, whose graph was read last. */
let last: { readonly origin: string | number; readonly graph: OnnxModel | null } | null = null
let forgetting: NodeJS.Timeout | undefined

/** Reads a graph, unless that is at hand, and answers what is asked of its rows. */
export function prove(task: ProofTask): ProofAnswer {
  const { questions, questionId } = task
  return { type: 'proved', questionId, proofs: answerQuestions(() => graphOf(task), questions) }
}

function graphOf({ model, bytesId }: ProofTask): OnnxModel | null {
  const origin = typeof model === 'string' ? `${stampOf(model).anything} ${model}` : bytesId
  if (last?.origin !== origin)
    last = { origin, graph: readGraph(typeof model === 'string' ? model : new Uint8Array(model)) }
  clearTimeout(forgetting)
  forgetting = setTimeout(() => (last = null), keptForMs).unref()
  return last.graph
}
