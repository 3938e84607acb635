import type { StartAnswer, WorkerSetup } from '../executor/thread-start.ts'
import { loadBinding } from '../memory/addon.ts'

/**
 * Starts the addon's loop, which does all the work on a thread of its own, for as long as this one lives. This thread stays
 * in its event loop: it can be looked into, reported on and terminated at any time.
 */
export function serveNative({ port, loopId, niceIncrement, onnxruntimeVersion }: Extract<WorkerSetup, { kind: 'native' }>, say: (word: StartAnswer) => void): void {
  const { binding, reason } = loadBinding()
  if (binding === null) return say({ failed: { message: reason, code: undefined, onnxruntime: false } })
  if (!binding.startLoop(loopId, niceIncrement)) return // nobody waits for this thread any more
  port.once('message', () => port.close()) // the loop has ended
  port.unref()
  say({ ready: { onnxruntimeVersion } })
}
