import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

let collect: (() => void) | undefined

/**
 * Has this thread's garbage collected: a thread that waits for work makes none that would start a collection. V8 gives
 * its collector away to new contexts only, and only under a flag, which is not left standing for others to find.
 * (An inspector session would do it too, but keeps the process from ending.)
 */
export function collectGarbage(): void {
  collect ??= findCollector()
  collect()
}

function findCollector(): () => void {
  setFlagsFromString('--expose-gc')
  try {
    const found: unknown = runInNewContext('globalThis.gc')
    return typeof found === 'function' ? (found as () => void) : () => {}
  } finally {
    if (!process.execArgv.includes('--expose-gc')) setFlagsFromString('--no-expose-gc')
  }
}
