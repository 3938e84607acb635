import type { Clock } from '../../base/clock.ts'
import type { Observers } from '../../observe/observers.ts'
import type { KeepAlive } from '../../base/keep-alive.ts'
import type { FindTarget } from './step-target.ts'

/** What a pipeline needs of its engine. */
export interface PipelineServices {
  readonly clock: Clock
  readonly keepAlive: KeepAlive
  readonly observers: Observers
  readonly find: FindTarget
}
