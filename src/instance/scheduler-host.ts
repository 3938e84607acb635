import type { Clock } from '../clock.ts'
import type { KeepAlive } from '../workers/keep-alive.ts'
import type { StagingBuffer } from '../memory/staging-pool.ts'
import type { ModelInstance } from './model-instance.ts'

/** What the scheduler leaves to the engine. */
export interface SchedulerHost {
  readonly clock: Clock
  readonly keepAlive: KeepAlive
  acquire(byteLength: number, instance: ModelInstance): StagingBuffer
  nextSlotId(): number
  /** Opens the instance's session on its new thread. */
  reopen(instance: ModelInstance): Promise<void>
  /** The model cannot serve any more. */
  gaveUp(reason: string): void
}
