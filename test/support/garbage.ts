import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

/** Has everything collected that nothing holds; finalizers run in later turns. */
export function collectGarbage(): void {
  gc()
}
