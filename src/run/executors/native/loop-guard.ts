import { isMainThread } from 'node:worker_threads'
import type { NativeBinding } from '../../../native/addon.ts'
import type { NativeRunLoop } from '../../../native/native-runs.ts'

const loops = new Set<NativeRunLoop>()
let addon: NativeBinding | null = null

/**
 * At exit no run is begun any more, and those under way are told to stop. The addon waits for them for a moment, and lets the
 * process go with whatever is left.
 */
function stopLoops(): void {
  for (const loop of loops) loop.stop()
  if (isMainThread) addon?.noteExit()
}

/** Has the exit of this process (or worker thread) stop `loop`. */
export function guardLoop(binding: NativeBinding, loop: NativeRunLoop): void {
  addon = binding
  if (loops.size === 0) process.on('exit', stopLoops)
  loops.add(loop)
}

/** Ends {@link guardLoop}. */
export function unguardLoop(loop: NativeRunLoop): void {
  if (loops.delete(loop) && loops.size === 0) process.off('exit', stopLoops)
}
