import type { ControlBlock } from './control-block.ts'

/** Longest time a process is held at its exit for runs that are under way. */
const limitMs = 60_000

const blocks = new Set<ControlBlock>()

/**
 * Ending a thread inside ONNX Runtime aborts the whole process, and `process.exit()` or an uncaught exception ends all
 * threads. So at exit no worker may enter ONNX Runtime any more, and those inside are waited for, synchronously.
 */
function stopWorkers(): void {
  const deadlineMs = performance.now() + limitMs
  for (const block of blocks) block.stop()
  for (const block of blocks) block.waitUntilNotBusy(Math.max(0, deadlineMs - performance.now()))
}

/** Has the exit of this process (or worker thread) wait for `block`'s worker. */
export function guardExit(block: ControlBlock): void {
  if (blocks.size === 0) process.on('exit', stopWorkers)
  blocks.add(block)
}

/** Ends {@link guardExit}. */
export function unguardExit(block: ControlBlock): void {
  if (blocks.delete(block) && blocks.size === 0) process.off('exit', stopWorkers)
}
