import type { StartAnswer, StartTask, WorkerSetup } from '../executors/thread-start.ts'
import { serveBinding } from './serve-binding.ts'

/**
 * The init task of a pool worker with the binding. Returns at once and starts to serve afterwards: Piscina holds the process until a
 * task has returned, and loading ONNX Runtime may take its time, or hang.
 */
export default function start({ setup, answer }: StartTask): void {
  const say = (word: StartAnswer): void => answer.postMessage(word)
  setImmediate(() => {
    void serveBinding(setup as Extract<WorkerSetup, { kind: 'binding' }>, say)
  })
}
