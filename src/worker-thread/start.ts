import { Bell, ControlBlock } from '../executor/binding/control-block.ts'
import { clockOffsetMs, type WorkerReady, type WorkerSetup } from '../executor/binding/protocol.ts'
import { Server } from './serve.ts'
import { Runtime } from './onnxruntime.ts'
import { acceptsSharedMemory } from './shared-memory-probe.ts'

/** The init task of a pool worker: attaches its control block, starts serving, and returns. */
export default async function start(setup: WorkerSetup): Promise<WorkerReady> {
  const control = new ControlBlock(setup.control)
  // Loading ONNX Runtime calls into it too: the thread must not be ended meanwhile.
  if (!control.enter()) throw new Error('The process is about to exit.')
  let runtime: Runtime
  let sharedMemory: boolean
  try {
    runtime = new Runtime()
    sharedMemory = await acceptsSharedMemory(runtime)
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
  void server.serve()
  return { onnxruntimeVersion: runtime.version, acceptsSharedMemory: sharedMemory }
}
