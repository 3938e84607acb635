import type { OnnxModel } from './onnx-model.ts'
import { proveRows, type RowProof, type RowQuestion } from './prove-rows.ts'

/**
 * What a graph says to questions in turn, until one is proved. What cannot be read or followed is an answer as well.
 *
 * @param read gives the graph; `null` for a file that only ONNX Runtime reads.
 */
export function answerQuestions(read: () => OnnxModel | null, questions: readonly RowQuestion[]): RowProof[] {
  const proofs: RowProof[] = []
  try {
    const graph = read()
    for (const question of questions) {
      proofs.push(proofOf(graph, question))
      if (proofs.at(-1)!.verdict === 'proved') break
    }
  } catch (error) {
    proofs.push(unknown(`its graph cannot be read: ${(error as Error).message}`))
  }
  return proofs
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
