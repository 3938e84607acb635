import type { ProofAnswer, ProofTask } from '../executor/thread-start.ts'
import { stampOf } from '../regular-file.ts'
import { answerQuestions } from '../row-proof/answer-questions.ts'
import type { OnnxModel } from '../row-proof/onnx-model.ts'
import { readGraph } from '../row-proof/read-graph.ts'

/** How long a graph is kept for the next question, in milliseconds. */
const keptForMs = 5000

/** The file whose graph was read last. */
let last: { readonly file: string; readonly graph: OnnxModel | null } | null = null
let forgetting: NodeJS.Timeout | undefined

/** Reads a graph, unless that is at hand, and answers what is asked of its rows. */
export function prove({ model, questions, questionId }: ProofTask): ProofAnswer {
  return { type: 'proved', questionId, proofs: answerQuestions(() => graphOf(model), questions) }
}

function graphOf(model: ProofTask['model']): OnnxModel | null {
  if (typeof model !== 'string') return readGraph(new Uint8Array(model))
  const file = `${stampOf(model).anything} ${model}`
  if (last?.file !== file) last = { file, graph: readGraph(model) }
  clearTimeout(forgetting)
  forgetting = setTimeout(() => (last = null), keptForMs).unref()
  return last.graph
}
