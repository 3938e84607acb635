import type { StartAnswer, StartTask } from '../executor/thread-start.ts'
import { serveBinding } from './serve-binding.ts'
import { serveNative } from './serve-native.ts'

/**
 * The init task of a pool worker. Returns at once and starts to serve afterwards: Piscina holds the process until a
 * task has returned, and loading ONNX Runtime may take its time, or hang.
 */
export default function start({ setup, answer }: StartTask): void {
  const say = (word: StartAnswer): void => answer.postMessage(word)
  setImmediate(() => {
    if (setup.kind === 'native') serveNative(setup, say)
    else void serveBinding(setup, say)
  })
}
