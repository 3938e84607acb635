import type { Executor, ExecutorEvents } from './executors/executor.ts'
import type { InlineBudget } from './inline-budget.ts'

/** How a worker gets its threads. */
export interface ThreadSource<E extends Executor> {
  /** What the application's thread may run itself, through its executors; `null` or left out for nothing. */
  readonly inline?: InlineBudget | null
  /** A new thread's executor, which reports to `events`; the thread is not started. */
  executor(events: ExecutorEvents): E
  /** Starts the thread; rejects, with nothing left behind, when it does not come up. */
  start(executor: E): Promise<void>
  /** Why the thread has ended, in words. */
  failure(executor: E): Promise<string>
  /** Leaves a thread to itself that is inside ONNX Runtime; resolves when it is not any more. It ends then. */
  leave(executor: E): Promise<void>
  /** A batch was handed over to a worker: its completion is to be listened for. */
  submitted(worker: { readonly outstanding: number; drain(): void }): void
}
