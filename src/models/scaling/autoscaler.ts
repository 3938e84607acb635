import { type Clock, Alarm } from '../../base/clock.ts'

/** Timers have a maximum; one that fires early is set again. */
const longestTimerMs = 2 ** 30

/** A wait that fell below this share is being worked off. */
const workedOff = 0.8

/** The work of an instance. */
export interface InstanceUse {
  /** Since when it has been idle; `null` while it has work. */
  readonly idleSinceMs: number | null
  /** Milliseconds it has been busy so far. */
  readonly busyMs: number
}

/** The model to scale. */
export interface Autoscaled {
  /** Whether a change is in progress, from any source. */
  readonly changing: boolean
  /** Whether an instance would start a batch at once. */
  readonly anyIdle: boolean
  /** Arrival of the oldest queued request; `Infinity` for none. */
  readonly oldestAtMs: number
  /** The instances of a group. */
  usesOf(group: number): readonly InstanceUse[]
  /** Sets the number of instances of a group. Resolves when they serve, or are removed. */
  resize(group: number, count: number): Promise<void>
}

/** A group that autoscales. */
interface Group {
  /** Index among the model's groups. */
  readonly number: number
  readonly limits: AutoscaleLimits
  memory: AutoscaleMemory
  /** Start of the current measurement of busy time ... */
  measuredFromMs: number
  /** ... and the busy time before it. */
  busyBeforeMs: number
}

/**
 * Adapts a model's number of instances to its load. It observes when requests arrive and runs end, at most once in the
 * shortest time in which a decision can change. It has one timer while a group is above its minimum, and none at rest.
 */
export class Autoscaler {
  readonly #groups: readonly Group[]
  readonly #target: Autoscaled
  readonly #clock: Clock
  readonly #alarm: Alarm
  readonly #failed: (reason: Error) => void
  /** No waiting changes anything before this time; `Infinity` while none could. */
  #upAtMs = Infinity
  /** By group: since when the oldest request has waited too long, and how long it had waited then. */
  readonly #waiting = new Map<Group, { readonly fromMs: number; readonly oldestWaitMs: number }>()
  #changing = false
  #closed = false

  /** @param failed called with the reason when a change failed. */
  constructor(
    groups: readonly Pick<Group, 'number' | 'limits'>[],
    target: Autoscaled,
    clock: Clock,
    failed: (reason: Error) => void,
  ) {
    this.#groups = groups.map((group) => ({
      ...group,
      memory: autoscaleStart(clock.nowMs()),
      measuredFromMs: clock.nowMs(),
      busyBeforeMs: 0,
    }))
    this.#target = target
    this.#clock = clock
    this.#failed = failed
    this.#alarm = new Alarm(clock, () => this.#decide())
    this.#decide()
  }

  /** Called when requests arrive or runs end. */
  readonly look = (): void => {
    if (this.#upAtMs !== Infinity && this.#clock.nowMs() >= this.#upAtMs) this.#decide()
  }

  /** Called when instances were added or removed by others, or lost. */
  changed(): void {
    if (this.#changing) return
    this.#startOver(this.#clock.nowMs())
    this.#decide()
  }

  close(): void {
    this.#closed = true
    this.#upAtMs = Infinity
    this.#alarm.clear()
  }

  #decide(): void {
    this.#upAtMs = Infinity
    this.#alarm.clear()
    if (this.#closed || this.#changing || this.#target.changing) return // called again after the change
    const { anyIdle, oldestAtMs } = this.#target
    const nowMs = this.#clock.nowMs()
    const oldestWaitMs = anyIdle ? 0 : Math.max(0, nowMs - oldestAtMs)
    let [upAtMs, downAtMs] = [Infinity, Infinity]
    for (const group of this.#groups) {
      const uses = this.#target.usesOf(group.number)
      const idleMs = uses.reduce(
        (longest, { idleSinceMs }) => Math.max(longest, idleSinceMs === null ? 0 : nowMs - idleSinceMs),
        0,
      )
      const busyMs = uses.reduce((sum, use) => sum + use.busyMs, 0)
      const measuredMs = nowMs - group.measuredFromMs
      const busyInstances = (busyMs - group.busyBeforeMs) / Math.max(1, measuredMs)
      const tooLongForMs = this.#tooLongForMs(group, oldestWaitMs, nowMs)
      const decision = decideInstances(group.limits, group.memory, {
        nowMs,
        instances: uses.length,
        oldestWaitMs,
        tooLongForMs,
        idleMs,
        busyInstances,
        measuredMs,
      })
      if (decision.instances !== uses.length) return void this.#change(group, decision.instances, uses.length)
      if (measuredMs >= shrinksAfterMs(group.limits, group.memory)) this.#measure(group, nowMs)
      upAtMs = Math.min(upAtMs, decision.upAtMs)
      downAtMs = Math.min(downAtMs, decision.downAtMs)
    }
    this.#upAtMs = upAtMs
    if (downAtMs !== Infinity)
      this.#alarm.set(Math.min(Math.max(downAtMs, nowMs + 1), nowMs + longestTimerMs)) // sums of times are inexact
  }

  /**
   * Milliseconds for which requests have waited too long; 0 if the wait is now much shorter than at first, since they
   * are then being worked off.
   */
  #tooLongForMs(group: Group, oldestWaitMs: number, nowMs: number): number {
    const before = this.#waiting.get(group)
    if (oldestWaitMs < group.limits.scaleUpAfterMs) this.#waiting.delete(group)
    else if (before === undefined || oldestWaitMs < workedOff * before.oldestWaitMs)
      this.#waiting.set(group, { fromMs: nowMs, oldestWaitMs })
    return nowMs - (this.#waiting.get(group)?.fromMs ?? nowMs)
  }

  #measure(group: Group, nowMs: number): void {
    group.measuredFromMs = nowMs
    group.busyBeforeMs = this.#target.usesOf(group.number).reduce((sum, { busyMs }) => sum + busyMs, 0)
  }

  /** Ignores all earlier observations. */
  #startOver(nowMs: number, changedAtMs = nowMs): void {
    this.#waiting.clear()
    for (const group of this.#groups) {
      group.memory = { ...group.memory, changedAtMs }
      this.#measure(group, nowMs)
    }
  }

  async #change(group: Group, count: number, before: number): Promise<void> {
    this.#changing = true
    const failed = await this.#target.resize(group.number, count).then(
      () => null,
      (error: Error) => error,
    )
    const nowMs = this.#clock.nowMs()
    this.#changing = false
    if (this.#closed) return
    if (failed === null) group.memory = afterChange(group.limits, group.memory, count < before, nowMs)
    else this.#failed(failed)
    // After a failure it pauses.
    this.#startOver(nowMs, failed === null ? nowMs : nowMs + group.limits.scaleDownAfterMs)
    this.#decide()
  }
}

/*
 * The policy by which a group autoscales: pure functions over plain data.
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
function shrinksAfterMs({ scaleDownAfterMs }: AutoscaleLimits, { patience }: AutoscaleMemory): number {
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
