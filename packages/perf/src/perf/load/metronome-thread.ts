import { parentPort, workerData } from 'node:worker_threads'
import type { MetronomeSetup } from './open-loop.ts'

/** Wakes this much early: about the time until the other thread notices. */
const aheadMs = 0.05

const { number, atMs, originNs } = workerData as MetronomeSetup
const nowMs = () => Number(process.hrtime.bigint() - originNs) / 1e6

// Messages are never read here, so only the moment or its change ends the sleep.
for (let told = 0, current = 0; current !== -1; current = Atomics.load(number, 0)) {
  if (current === told) {
    Atomics.wait(number, 0, current)
    continue
  }
  const leftMs = atMs[0]! - aheadMs - nowMs()
  if (leftMs > 0) Atomics.wait(number, 0, current, leftMs)
  else {
    told = current
    parentPort!.postMessage(0)
  }
}
