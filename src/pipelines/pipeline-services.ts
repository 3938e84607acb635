import type { Clock } from '../clock.ts'
import type { Observers } from '../observability/observers.ts'
import type { KeepAlive } from '../workers/keep-alive.ts'
import type { FindTarget } from './step-target.ts'

/** What a pipeline needs of its engine. */
export interface PipelineServices {
  readonly clock: Clock
  readonly keepAlive: KeepAlive
  readonly observers: Observers
  readonly find: FindTarget
}
