import { statSync } from 'node:fs'
import type { Piscina } from 'piscina'
import { ownFile, requireFromPackage } from '../base/own-package.ts'
import type { RowProof, RowQuestion } from '../onnx/row-proof/prove-rows.ts'
import { messageOf } from '../base/message-of.ts'
import { bytesId } from './executors/executor.ts'
import type { ProofTask } from './prove.ts'

/** Graphs are read by the calling thread up to this size and number of steps, some milliseconds: the start of a thread takes 50. */
const mostBytesHere = 2 ** 20
const mostStepsHere = 200_000
/** After so long without a question the thread ends. */
const idleMs = 5000

let thread: Piscina | null = null

/**
 * Asks the graph of a model about its rows. Large graphs are read by a thread, one for the process. A file that cannot be read is
 * answered with `unknown`.
 *
 * @param model its path, or its bytes.
 * @param questions in turn, until one is proved. None: the graph is read ahead.
 * @returns what was found for each of those that were asked.
 */
export async function prove(
  model: string | SharedArrayBuffer,
  questions: readonly RowQuestion[],
): Promise<readonly RowProof[]> {
  const task: ProofTask = { model, bytesId: typeof model === 'string' ? 0 : bytesId(model), questions }
  if (byteLengthOf(model) <= mostBytesHere) {
    const { default: proveHere } = await import('./prove.ts')
    const proofs = proveHere(task, mostStepsHere)
    if (proofs !== null) return proofs
  }
  try {
    thread ??= newThread()
    return await thread.run(task)
  } catch (error) {
    return [{ rows: 'unknown', node: null, reason: messageOf(error) }] // no thread could be started, say
  }
}

function byteLengthOf(model: string | SharedArrayBuffer): number {
  if (typeof model !== 'string') return model.byteLength
  try {
    return statSync(model).size
  } catch {
    return 0 // who reads it says why it cannot be read
  }
}

function newThread(): Piscina {
  // By its own files, as it starts its threads from one: not out of a bundle.
  const { Piscina } = requireFromPackage('piscina') as typeof import('piscina')
  return new Piscina({
    filename: ownFile('run/prover-thread.cjs'),
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: idleMs,
    atomics: 'disabled',
    recordTiming: false,
  })
}
