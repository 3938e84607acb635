import { Bell } from '../executors/binding/bell.ts'
import { ControlBlock } from '../executors/binding/control-block.ts'
import { clockOffsetMs } from '../executors/binding/protocol.ts'
import type { StartAnswer, WorkerReady, WorkerSetup } from '../executors/thread-start.ts'
import { Runtime } from './onnxruntime.ts'
import { Server } from './serve.ts'
import { acceptsSharedMemory } from './shared-memory-probe.ts'

/** Attaches the control block, loads onnxruntime-node, says how that went, and serves. */
export async function serveBinding(
  setup: Extract<WorkerSetup, { kind: 'binding' }>,
  say: (word: StartAnswer) => void,
): Promise<void> {
  const control = new ControlBlock(setup.control)
  let runtime: Runtime | null = null
  try {
    // Loading native code is not to be interrupted either.
    if (!control.enter()) return // nobody waits for this thread any more
    let ready: WorkerReady
    try {
      runtime = new Runtime()
      ready = { onnxruntimeVersion: runtime.version, acceptsSharedMemory: await acceptsSharedMemory(runtime) }
    } finally {
      control.leave()
    }
    const server = new Server(
      setup.port,
      control,
      new Bell(setup.bell),
      runtime,
      clockOffsetMs() - setup.clockOffsetMs,
    )
    say({ ready })
    void server.serve()
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    say({ failed: { message, code, onnxruntime: runtime === null } })
  }
}
