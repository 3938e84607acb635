import { parentPort } from 'node:worker_threads'
import { messageOf } from '../base/message-of.ts'
import type { RowProof } from '../onnx/row-proof/prove-rows.ts'
import { answerTask, type ProofTask } from './proof-task.ts'

/** What the thread that proves says: first that it serves, then its answers in turn. */
export type ProofAnswer = 'ready' | { readonly proofs: readonly RowProof[] } | { readonly failed: string }

const port = parentPort!
const say = (answer: ProofAnswer): void => port.postMessage(answer)

port.on('message', (task: ProofTask) => {
  try {
    say({ proofs: answerTask(task)! })
  } catch (error) {
    say({ failed: messageOf(error) })
  }
})
say('ready')
