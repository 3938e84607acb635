/**
 * The policy by which a group of instances autoscales: pure functions over plain data.
 *
 * - It adds one instance while requests keep waiting although no instance is idle.
 * - It removes one when an instance was idle for long, or the remaining ones would have been busy for less than half of
 *   the time. The gap between the two conditions keeps the number stable.
 * - After a change it waits as long as the next change would need, to see the effect.
 * - If a removed instance is soon needed again, the next one stays twice as long.
 *
 * So the number follows a step in the load, and then stays.
 */

/** The limits from a group's configuration. */
export interface AutoscaleLimits {
  readonly minInstances: number
  readonly maxInstances: number
  readonly scaleUpAfterMs: number
  readonly scaleDownAfterMs: number
}

/** The current state of a group. */
interface AutoscaleMoment {
  readonly nowMs: number
  readonly instances: number
  /** Milliseconds the oldest request has waited; 0 if none waits, or an instance could take it. */
  readonly oldestWaitMs: number
  /** For how many milliseconds the oldest wait has been above `scaleUpAfterMs` without shrinking much; 0 if it is not now. */
  readonly tooLongForMs: number
  /** Milliseconds the longest idle instance has been idle; 0 if all have work. */
  readonly idleMs: number
  /** Average number of busy instances ... */
  readonly busyInstances: number
  /** ... over this many milliseconds. */
  readonly measuredMs: number
}

/** State of a group between its changes. */
export interface AutoscaleMemory {
  /** When the last change took effect; earlier observations are ignored. In the future while no change is allowed. */
  readonly changedAtMs: number
  /** Whether that change removed an instance. */
  readonly shrunk: boolean
  /** Factor on `scaleDownAfterMs` before an instance is removed. */
  readonly patience: number
}

/** The decision. */
interface AutoscaleDecision {
  /** The number of instances to have. */
  readonly instances: number
  /** No waiting adds an instance before this time; `Infinity` while none could. */
  readonly upAtMs: number
  /** No instance is removed before this time; `Infinity` while none could be. */
  readonly downAtMs: number
}

/** Busy share allowed for the remaining instances when one is removed. */
const mostBusy = 0.5
/** Requests keep waiting if they do so for this many times `scaleUpAfterMs` ... */
const goOnTimes = 3
/** ... with this many observations. */
const looks = 12
/** Largest patience, which grows when instances were removed too soon. */
const mostPatience = 16
/** A removed instance was needed soon if within this many times the delay after which it was removed. */
const soonTimes = 10

export const autoscaleStart = (nowMs: number): AutoscaleMemory => ({
  changedAtMs: nowMs,
  shrunk: false,
  patience: 1,
})

/** Milliseconds an instance must be idle, or all must have little work, before one is removed. */
export function shrinksAfterMs({ scaleDownAfterMs }: AutoscaleLimits, { patience }: AutoscaleMemory): number {
  return scaleDownAfterMs * patience
}

/** Whether a group grows or shrinks now, or from when on it may. */
export function decideInstances(
  limits: AutoscaleLimits,
  memory: AutoscaleMemory,
  moment: AutoscaleMoment,
): AutoscaleDecision {
  const { minInstances, maxInstances, scaleUpAfterMs } = limits
  const { nowMs, instances, oldestWaitMs, tooLongForMs, idleMs, busyInstances, measuredMs } = moment
  const lastedMs = nowMs - memory.changedAtMs
  const downAfterMs = shrinksAfterMs(limits, memory)
  const grows =
    lastedMs >= 0 &&
    (instances < minInstances || (instances < maxInstances && tooLongForMs >= goOnTimes * scaleUpAfterMs))
  const isLittleUsed = measuredMs >= downAfterMs && busyInstances <= mostBusy * (instances - 1)
  const shrinks =
    !grows &&
    instances > minInstances &&
    (instances > maxInstances || ((idleMs >= downAfterMs || isLittleUsed) && lastedMs >= downAfterMs))
  const waitLeftMs =
    instances < minInstances
      ? 0
      : oldestWaitMs >= scaleUpAfterMs
        ? (goOnTimes * scaleUpAfterMs) / looks
        : scaleUpAfterMs - oldestWaitMs
  // After a full measurement a new one starts now.
  const measureLeftMs = measuredMs >= downAfterMs ? downAfterMs : downAfterMs - measuredMs
  const idleLeftMs = Math.max(0, downAfterMs - idleMs)
  return {
    instances: instances + (grows ? 1 : shrinks ? -1 : 0),
    upAtMs: instances >= maxInstances ? Infinity : nowMs + Math.max(waitLeftMs, -lastedMs),
    downAtMs:
      instances <= minInstances
        ? Infinity
        : nowMs + Math.max(Math.min(idleLeftMs, measureLeftMs), downAfterMs - lastedMs),
  }
}

/** The state after a change has taken effect. */
export function afterChange(
  { scaleDownAfterMs }: AutoscaleLimits,
  memory: AutoscaleMemory,
  shrunk: boolean,
  nowMs: number,
): AutoscaleMemory {
  const missed = memory.shrunk && !shrunk
  const soon = nowMs - memory.changedAtMs < soonTimes * memory.patience * scaleDownAfterMs
  const patience = missed ? (soon ? Math.min(mostPatience, 2 * memory.patience) : 1) : memory.patience
  return { changedAtMs: nowMs, shrunk, patience }
}
