import { statSync } from 'node:fs'
import type { Piscina } from 'piscina'
import { ownFile, requireFromPackage } from '../base/own-package.ts'
import type { RowProof, RowQuestion } from '../onnx/row-proof/prove-rows.ts'
import { bytesId } from './executors/executor.ts'
import type { ProofTask } from './worker-thread/prove.ts'

/** Graphs of files up to this size are read by the calling thread: it takes a few milliseconds, and the start of a thread 50. */
const mostBytesHere = 2 ** 20
/** After so long without a question the thread ends. */
const idleMs = 5000

let thread: Piscina | null = null

/**
 * Asks the graph of a model about its rows. Large files are read by a thread of their own, one for the process.
 *
 * @param questions in turn, until one is proved. None: the graph is read ahead.
 */
export async function prove(
  model: string | SharedArrayBuffer,
  questions: readonly RowQuestion[],
): Promise<readonly RowProof[]> {
  const task: ProofTask = { model, bytesId: typeof model === 'string' ? 0 : bytesId(model), questions }
  const size = typeof model === 'string' ? statSync(model).size : model.byteLength
  if (size > mostBytesHere) return (thread ??= newThread()).run(task)
  const { default: proveHere } = await import('./worker-thread/prove.ts')
  return proveHere(task)
}

function newThread(): Piscina {
  const { Piscina } = requireFromPackage('piscina') as typeof import('piscina')
  const options = { minThreads: 0, maxThreads: 1, idleTimeout: idleMs, atomics: 'disabled', recordTiming: false } as const
  return new Piscina({ filename: ownFile('run/worker-thread/prover.cjs'), ...options })
}
