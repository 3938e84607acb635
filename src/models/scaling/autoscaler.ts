import { type Clock, Alarm } from '../../base/clock.ts'
import {
  afterChange,
  autoscaleStart,
  decideInstances,
  shrinksAfterMs,
  type AutoscaleLimits,
  type AutoscaleMemory,
} from './autoscale-policy.ts'

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
interface AutoscaledGroup {
  /** Index among the model's groups. */
  readonly number: number
  readonly limits: AutoscaleLimits
}

interface Group extends AutoscaledGroup {
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
    groups: readonly AutoscaledGroup[],
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
