import type { ProofTask, StartTask, WorkerSetup } from '../executors/protocol.ts' with {
  'resolution-mode': 'import',
}
import type { NativeBinding } from '../../native/native-binding.ts' with { 'resolution-mode': 'import' }

/**
 * What Piscina takes by `require()` in each thread. Of ES modules it would have Node make a whole graph at once, and a thread
 * that is terminated meanwhile, as by an exception on the application's thread, ends the process by a signal (Node 20).
 */
module.exports = async (task: StartTask) => {
  try {
    if (task.setup.kind === 'native') return startLoop(task.setup, task)
    const { default: start } = await import('./serve.ts')
    start(task)
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    task.answer.postMessage({ failed: { message, code, onnxruntime: false } })
  }
}

/**
 * Starts the addon's loop, which does all the work on a thread of its own, for as long as this one lives. This thread stays
 * in its event loop, where it can be looked into, reported on and terminated at any time, and reads the graphs of models while the
 * loop opens them. It takes no modules before the first of those: they are milliseconds of each load, and megabytes of each process.
 */
function startLoop(
  { port, addon, loopId, niceIncrement, onnxruntimeVersion }: Extract<WorkerSetup, { kind: 'native' }>,
  { answer }: StartTask,
): void {
  const loaded = { exports: {} as NativeBinding }
  process.dlopen(loaded, addon)
  if (!loaded.exports.startLoop(loopId, niceIncrement)) return // nobody waits for this thread any more
  port.on('message', (message: ProofTask | 'exit') => {
    if (message === 'exit') return port.close() // the loop has ended
    const unknown = (reason: string) => ({
      type: 'proved',
      questionId: message.questionId,
      proofs: [{ verdict: 'unknown', node: null, reason }],
    })
    void import('./prove.ts')
      .then(({ prove }) => prove(message))
      .catch((error: Error) => unknown(error.message))
      .then((answer) => port.postMessage(answer))
  })
  port.unref()
  answer.postMessage({ ready: { onnxruntimeVersion } })
}
