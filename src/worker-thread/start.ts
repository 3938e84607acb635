import { Bell } from '../executor/binding/bell.ts'
import { ControlBlock } from '../executor/binding/control-block.ts'
import { clockOffsetMs, type StartAnswer, type StartTask, type WorkerReady } from '../executor/binding/protocol.ts'
import { loadBinding } from '../memory/addon.ts'
import { Server } from './serve.ts'
import { Runtime } from './onnxruntime.ts'
import { acceptsSharedMemory } from './shared-memory-probe.ts'

/**
 * The init task of a pool worker. Returns at once and starts to serve afterwards: Piscina holds the process until a
 * task has returned, and loading ONNX Runtime may take its time, or hang.
 */
export default function start(task: StartTask): void {
  setImmediate(() => void begin(task))
}

/** Attaches the control block, loads ONNX Runtime, says how that went, and serves. */
async function begin(task: StartTask): Promise<void> {
  const { port, answer } = task
  const control = new ControlBlock(task.control)
  let runtime: Runtime | null = null
  try {
    // Loading native code is not to be interrupted either.
    if (!control.enter()) return // nobody waits for this thread any more
    let ready: WorkerReady
    try {
      runtime = new Runtime()
      ready = {
        onnxruntimeVersion: runtime.version,
        acceptsSharedMemory: await acceptsSharedMemory(runtime),
        noNativeMemory: loadBinding().reason ?? null,
      }
    } finally {
      control.leave()
    }
    const server = new Server(port, control, new Bell(task.bell), runtime, clockOffsetMs() - task.clockOffsetMs)
    answer.postMessage({ ready } satisfies StartAnswer)
    void server.serve()
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    answer.postMessage({ failed: { message, code, onnxruntime: runtime === null } } satisfies StartAnswer)
  }
}
