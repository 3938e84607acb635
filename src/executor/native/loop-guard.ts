import type { NativeRunLoop } from '../../memory/addon.ts'

/** Longest time a process is held at its exit for a run that does not stop. */
const limitMs = 60_000

const loops = new Set<NativeRunLoop>()

/** At exit no run is begun any more, and those under way are stopped and waited for: ONNX Runtime must not be taken down beneath them. */
function stopLoops(): void {
  const deadlineMs = performance.now() + limitMs
  for (const loop of loops) loop.stop()
  for (const loop of loops) loop.waitUntilEnded(Math.max(0, Math.ceil(deadlineMs - performance.now())))
}

/** Has the exit of this process (or worker thread) stop `loop`. */
export function guardLoop(loop: NativeRunLoop): void {
  if (loops.size === 0) process.on('exit', stopLoops)
  loops.add(loop)
}

/** Ends {@link guardLoop}. */
export function unguardLoop(loop: NativeRunLoop): void {
  if (loops.delete(loop) && loops.size === 0) process.off('exit', stopLoops)
}
