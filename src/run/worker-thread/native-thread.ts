import type { ProofTask, StartTask, WorkerSetup } from '../executors/protocol.ts'
import type { NativeBinding } from '../../native/native-binding.ts'

/**
 * What Piscina takes by `require()` in each thread of the native executor: bundled into one CommonJS file, as those of the other
 * executors are, so that a thread reads nothing else and starts no loader of ES modules. A thread that is terminated while one
 * makes its graph, as by an exception on the application's thread, ends the process by a signal (Node 20).
 *
 * Starts the addon's loop, which does all the work on a thread of its own, for as long as this one lives. This thread stays
 * in its event loop, where it can be looked into, reported on and terminated at any time, and reads the graphs of models while the
 * loop opens them. Their reader is set up for the first of those: before, it would be milliseconds of each load, and megabytes
 * of each process.
 */
export default function start({ setup, answer }: StartTask): void {
  const { port, addon, loopId, niceIncrement, onnxruntimeVersion } = setup as Extract<
    WorkerSetup,
    { kind: 'native' }
  >
  const loaded = { exports: {} as NativeBinding }
  try {
    process.dlopen(loaded, addon)
    if (!loaded.exports.startLoop(loopId, niceIncrement)) return // nobody waits for this thread any more
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
