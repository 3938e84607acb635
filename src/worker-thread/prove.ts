import type { ProofAnswer, ProofTask } from '../executor/thread-start.ts'
import { stampOf } from '../regular-file.ts'
import { proveRows, type RowProof, type RowQuestion } from '../row-proof/prove-rows.ts'
import type { OnnxModel } from '../row-proof/onnx-model.ts'
import { readGraph } from '../row-proof/read-graph.ts'

/** How long a graph is kept for the next question, in milliseconds. */
const keptForMs = 5000

/** The file whose graph was read last. */
let last: { readonly file: string; readonly graph: OnnxModel | null } | null = null
let forgetting: NodeJS.Timeout | undefined

/** Reads a graph, unless that is at hand, and answers what is asked of its rows; what cannot be read, or followed, is unknown. */
export function prove({ model, questions, questionId }: ProofTask): ProofAnswer {
  const proofs: RowProof[] = []
  try {
    const graph = graphOf(model)
    for (const question of questions) {
      proofs.push(proofOf(graph, question))
      if (proofs.at(-1)!.verdict === 'proved') break
    }
  } catch (error) {
    proofs.push(unknown(`its graph cannot be read: ${(error as Error).message}`))
  }
  return { type: 'proved', questionId, proofs }
}

function graphOf(model: ProofTask['model']): OnnxModel | null {
  if (typeof model !== 'string') return readGraph(new Uint8Array(model))
  const file = `${stampOf(model).anything} ${model}`
  if (last?.file !== file) last = { file, graph: readGraph(model) }
  clearTimeout(forgetting)
  forgetting = setTimeout(() => (last = null), keptForMs).unref()
  return last.graph
}

function proofOf(graph: OnnxModel | null, question: RowQuestion): RowProof {
  if (graph === null) return unknown("its file is of ONNX Runtime's own format, whose graph is not read")
  try {
    return proveRows(graph, question)
  } catch (error) {
    return unknown(`its graph cannot be followed: ${(error as Error).message}`)
  }
}

const unknown = (reason: string): RowProof => ({ verdict: 'unknown', node: null, reason })
