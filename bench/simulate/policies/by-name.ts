import type { ModelQueue, QueueContext } from '../model-queue.ts'
import type { PolicyName } from '../scenario.ts'
import { UnbatchedQueue } from './none.ts'
import { TritonQueue } from './triton.ts'
import { WindowQueue } from './window.ts'
import { ZerohopTargetQueue } from './zerohop-target.ts'
import { ZerohopQueue } from './zerohop.ts'

/** Makes the queue of one model. */
export const policies: Readonly<Record<PolicyName, (context: QueueContext) => ModelQueue>> = {
  none: (context) => new UnbatchedQueue(context),
  window: (context) => new WindowQueue(context),
  triton: (context) => new TritonQueue(context),
  zerohop: (context) => new ZerohopQueue(context),
  'zerohop-target': (context) => new ZerohopTargetQueue(context),
}
