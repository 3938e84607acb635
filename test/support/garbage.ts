import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

/** Has everything collected that nothing holds; finalizers run in later turns. */
export function collectGarbage(): void {
  gc()
  gc() // another thread may still free the memory of arrays that the first has found: the second begins when it is done
}

/** Has engines found that earlier test files of this process have dropped: their warning is emitted before what follows. */
export async function findDropped(): Promise<void> {
  // What one finalizer lets go of is garbage only then.
  for (let round = 0; round < 3; round++) {
    collectGarbage()
    await sleep(10)
  }
}
