import { setImmediate as nextTurn } from 'node:timers/promises'

/**
 * Has this thread's garbage collected, in a turn of its own so that nothing on the stack holds it: a thread that waits for work
 * makes no garbage that would start a collection. Without an inspector it is left to V8.
 */
export async function collectGarbage(): Promise<void> {
  await nextTurn()
  try {
    const { Session } = await import('node:inspector')
    const session = new Session()
    session.connect()
    session.post('HeapProfiler.collectGarbage')
    session.disconnect()
  } catch {
    // a Node without one, or one that does not permit it
  }
}
