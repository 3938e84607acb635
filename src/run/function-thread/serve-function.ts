import { Bell } from '../executors/binding/bell.ts'
import { ControlBlock } from '../executors/binding/control-block.ts'
import { clockOffsetMs } from '../executors/binding/protocol.ts'
import type { StartAnswer, StartTask, WorkerSetup } from '../executors/thread-start.ts'
import { FunctionServer } from './function-server.ts'

/** Attaches the control block, says that it serves, and does. */
export function serveFunction({ setup, answer }: StartTask): void {
  const {
    port,
    control,
    bell,
    clockOffsetMs: offsetMs,
    concurrency,
  } = setup as Extract<WorkerSetup, { kind: 'function' }>
  const server = new FunctionServer(
    port,
    new ControlBlock(control, concurrency),
    new Bell(bell),
    clockOffsetMs() - offsetMs,
    concurrency,
  )
  answer.postMessage({ ready: { onnxruntimeVersion: '' } } satisfies StartAnswer)
  void server.serve()
}
