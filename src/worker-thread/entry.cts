import type { StartTask, WorkerSetup } from '../executor/thread-start.ts' with { 'resolution-mode': 'import' }
import type { NativeBinding } from '../memory/addon.ts' with { 'resolution-mode': 'import' }

/**
 * What Piscina takes by `require()` in each thread. Of ES modules it would have Node make a whole graph at once, and a thread
 * that is terminated meanwhile, as by an exception on the application's thread, ends the process by a signal (Node 20).
 */
module.exports = async (task: StartTask) => {
  try {
    if (task.setup.kind === 'native') return startLoop(task.setup, task)
    const { default: start } = await import('./start.ts')
    start(task)
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    task.answer.postMessage({ failed: { message, code, onnxruntime: false } })
  }
}

/**
 * Starts the addon's loop, which does all the work on a thread of its own, for as long as this one lives. This thread stays
 * in its event loop: it can be looked into, reported on and terminated at any time. It takes no modules for that: they are
 * milliseconds of each load, and megabytes of each process.
 */
function startLoop({ port, addon, loopId, niceIncrement, onnxruntimeVersion }: Extract<WorkerSetup, { kind: 'native' }>, { answer }: StartTask): void {
  const loaded = { exports: {} as NativeBinding }
  process.dlopen(loaded, addon)
  if (!loaded.exports.startLoop(loopId, niceIncrement)) return // nobody waits for this thread any more
  port.once('message', () => port.close()) // the loop has ended
  port.unref()
  answer.postMessage({ ready: { onnxruntimeVersion } })
}
