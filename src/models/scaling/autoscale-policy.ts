/**
 * The policy by which a group of instances grows and shrinks by itself: pure functions over plain data. It grows by one while
 * requests go on waiting although no instance is idle, and shrinks by one when one had nothing to do for long, or all had so little
 * that those left would have been busy for less than half of the time. Between the two lies room: what is taken out was not
 * needed by far, what is added was. Each change is given as long to tell as would bring about the next one, and an instance that
 * is missed soon after it was taken out makes the next one stay for twice as long. So a step in the load is followed up, or down,
 * and after that the number rests.
 */

/** What a group's configuration says. */
export interface AutoscaleLimits {
  readonly minInstances: number
  readonly maxInstances: number
  readonly scaleUpAfterMs: number
  readonly scaleDownAfterMs: number
}

/** How a group stands. */
export interface AutoscaleMoment {
  readonly nowMs: number
  readonly instances: number
  /** For how long the oldest request has waited; 0 when none waits, or an instance could take it. */
  readonly waitedMs: number
  /** For how long that has been `scaleUpAfterMs` or more, and hardly got shorter, whenever it was looked at; 0 when it is not. */
  readonly waitingMs: number
  /** For how long the instance has had nothing to do of which that is the longest; 0 when all have. */
  readonly idleMs: number
  /** How many instances were busy on average ... */
  readonly busyInstances: number
  /** ... in the last so many milliseconds. */
  readonly measuredMs: number
}

/** What is remembered of a group between its changes. */
export interface AutoscaleMemory {
  /** When the last one took effect, by which nothing is judged that was before; in the future while none is to be made. */
  readonly changedAtMs: number
  /** Whether that took an instance out. */
  readonly shrunk: boolean
  /** How many times `scaleDownAfterMs` have to pass before an instance is taken out. */
  readonly patience: number
}

/** What is to happen. */
export interface AutoscaleDecision {
  /** How many instances there are to be. */
  readonly instances: number
  /** Before this time no waiting makes it grow; `Infinity` while nothing does. */
  readonly upAtMs: number
  /** Before this time nothing makes it shrink; `Infinity` while nothing does. */
  readonly downAtMs: number
}

/** What instances may be busy at most when there is one fewer. */
const mostBusy = 0.5
/** Requests go on waiting when they do for so many times the wait that is too long ... */
const goOnTimes = 3
/** ... in which it is looked at so often. */
const looks = 12
/** Most of the patience that comes of taking instances out too soon. */
const mostPatience = 16
/** An instance is missed soon when it is within so many times the time after which it was taken out. */
const soonTimes = 10

export const autoscaleStart = (nowMs: number): AutoscaleMemory => ({
  changedAtMs: nowMs,
  shrunk: false,
  patience: 1,
})

/** For how long an instance has to be idle, or all of them little used, before one is taken out. */
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
  const { nowMs, instances, waitedMs, waitingMs, idleMs, busyInstances, measuredMs } = moment
  const lastedMs = nowMs - memory.changedAtMs
  const downAfterMs = shrinksAfterMs(limits, memory)
  const grows =
    lastedMs >= 0 &&
    (instances < minInstances || (instances < maxInstances && waitingMs >= goOnTimes * scaleUpAfterMs))
  const isLittleUsed = measuredMs >= downAfterMs && busyInstances <= mostBusy * (instances - 1)
  const shrinks =
    !grows &&
    instances > minInstances &&
    (instances > maxInstances || ((idleMs >= downAfterMs || isLittleUsed) && lastedMs >= downAfterMs))
  const waitLeftMs =
    instances < minInstances
      ? 0
      : waitedMs >= scaleUpAfterMs
        ? (goOnTimes * scaleUpAfterMs) / looks
        : scaleUpAfterMs - waitedMs
  // What was measured for long enough is measured anew from now on.
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

/** What is remembered of a change that has taken effect. */
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
