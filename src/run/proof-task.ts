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

/** How long graphs are kept for the next question, in milliseconds, and how many. */
const keptForMs = 5000
const mostKept = 8

interface KeptGraph {
  /** `undefined` until it was read; `null` for a file that only ONNX Runtime reads. */
  graph: OnnxModel | null | undefined
  /** Whether an answer took more steps than it was given. */
  isLong: boolean
}

/** By the file, or the buffer, of the model; the one that was asked last is the last. */
const kept = new Map<string | number, KeptGraph>()
let forgetting: NodeJS.Timeout | undefined

/**
 * Answers questions about the rows of a graph. The graph is read unless it is kept.
 *
 * @param steps that the answer may take; left out for the limit of a proof.
 * @returns `null` if an answer of this graph took more than `steps`, now or before.
 */
export function answerTask(
  { model, bytesId, questions }: ProofTask,
  steps?: number,
): readonly RowProof[] | null {
  const own = keptOf(typeof model === 'string' ? `${stampOf(model).anything} ${model}` : bytesId)
  if (own.isLong && steps !== undefined) return null
  const read = (): OnnxModel | null =>
    own.graph === undefined
      ? (own.graph = readGraph(typeof model === 'string' ? model : new Uint8Array(model)))
      : own.graph
  try {
    return answerQuestions(read, questions, steps)
  } catch (error) {
    if (!(error instanceof TooManySteps)) throw error
    own.isLong = true
    return null
  }
}

function keptOf(origin: string | number): KeptGraph {
  const own = kept.get(origin) ?? { graph: undefined, isLong: false }
  kept.delete(origin)
  kept.set(origin, own)
  if (kept.size > mostKept) kept.delete(kept.keys().next().value!)
  clearTimeout(forgetting)
  forgetting = setTimeout(() => kept.clear(), keptForMs).unref()
  return own
}
