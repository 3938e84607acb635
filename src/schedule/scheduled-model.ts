import type { Clock } from '../base/clock.ts'
import type { CheckedOptions } from '../options/infer-options.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import type { RunTimes } from './run-times.ts'
import type { Padding } from '../request/padding.ts'
import type { RequestCosts } from '../request/request-costs.ts'
import type { KeepAlive } from '../base/keep-alive.ts'
import type { Joining } from './joining.ts'
import type { InferRequest } from '../request/infer-request.ts'
import type { ObservedRequests } from './observed-requests.ts'

/** The options of a call that the scheduler acts on. */
export type SubmitOptions = Pick<CheckedOptions, 'timeoutMs' | 'deadlineMs' | 'maxRunMs' | 'signal'>

/** What a {@link Scheduler} is made for. */
export interface ScheduledModel {
  readonly joining: Joining
  /** Watches what is served while that decides whether requests may be joined; else `null`. */
  readonly rowCheck: { served(requests: readonly InferRequest[]): void } | null
  readonly padding: Padding | null
  /** What requests cost; `null` where nothing is said of it. */
  readonly costs: RequestCosts | null
  readonly config: ResolvedConfig
  readonly observed: ObservedRequests
  /** What runs took so far, from a calibration. */
  readonly runTimes: RunTimes
  /** How many instances there will be. */
  readonly instances: number
  readonly clock: Clock
  readonly keepAlive: KeepAlive
  /** The model cannot serve any more. */
  gaveUp(reason: string): void
}
