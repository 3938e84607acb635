import {
  EngineQueue,
  type QueueContext,
  type SimulatedQueue,
  TargetQueue,
} from '../../../packages/perf/src/simulation/simulated-queue.ts'
import type { PolicyName } from '../scenario.ts'
import { UnbatchedQueue } from './none.ts'
import { TritonQueue } from './triton.ts'
import { WindowQueue } from './window.ts'

/** Makes the queue of one model. */
export const policies: Readonly<Record<PolicyName, (context: QueueContext) => SimulatedQueue>> = {
  none: (context) => new UnbatchedQueue(context),
  window: (context) => new WindowQueue(context),
  triton: (context) => new TritonQueue(context),
  zerohop: (context) => new EngineQueue(context),
  'zerohop-target': (context) => new TargetQueue(context),
}
