import type { ProofTask, StartTask, WorkerSetup } from '../executors/protocol.ts'
import type { NativeBinding } from '../../native/native-binding.ts'

/**
 * The module that Piscina loads by `require()` in each thread of the native executor. Like those of the other executors it is
 * bundled into one CommonJS file, so that a thread reads no other file and starts no loader of ES modules. On Node 20, a thread
 * that is terminated while that loader builds its graph, as after an exception on the application's thread, ends the process by
 * a signal.
 *
 * Starts the addon's loop, which does all the work on a thread of its own, for as long as this thread lives. This thread stays
 * in its event loop, where it can be inspected and terminated at any time, and reads the graphs of models while the loop opens
 * them. The reader of graphs is loaded with the first one: earlier it would cost every load milliseconds, and every process
 * megabytes.
 */
export default function start({ setup, answer }: StartTask): void {
  const { port, addon, loopId, niceIncrement, onnxruntimeVersion } = setup as Extract<
    WorkerSetup,
    { kind: 'native' }
  >
  const loaded = { exports: {} as NativeBinding }
  try {
    process.dlopen(loaded, addon)
    if (!loaded.exports.startLoop(loopId, niceIncrement)) return // the engine no longer waits for this thread
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    answer.postMessage({ failed: { message, code, onnxruntime: false } })
    return
  }
  port.on('message', (message: ProofTask | 'exit') => {
    if (message === 'exit') return port.close() // the loop has ended
    const unknown = (reason: string) => ({
      type: 'proved',
      questionId: message.questionId,
      proofs: [{ rows: 'unknown', node: null, reason }],
    })
    void import('./prove.ts')
      .then(({ prove }) => prove(message))
      .catch((error: Error) => unknown(error.message))
      .then((answer) => port.postMessage(answer))
  })
  port.unref()
  answer.postMessage({ ready: { onnxruntimeVersion } })
}
