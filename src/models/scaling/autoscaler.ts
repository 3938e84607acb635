import type { Clock } from '../../base/clock.ts'
import { Alarm } from '../../base/alarm.ts'
import {
  afterChange,
  autoscaleStart,
  decideInstances,
  shrinksAfterMs,
  type AutoscaleLimits,
  type AutoscaleMemory,
} from './autoscale-policy.ts'

/** No timer is longer; one that rings early is set again. */
const longestTimerMs = 2 ** 30

/** What is left of a wait that is getting shorter. */
const workedOff = 0.8

/** What an instance had to do. */
export interface InstanceUse {
  /** Since when nothing; `null` while it has something. */
  readonly idleSinceMs: number | null
  /** For how long it has been busy so far. */
  readonly busyMs: number
}

/** What is scaled. */
export interface Autoscaled {
  /** Whether a change is under way, whoever asked for it. */
  readonly changing: boolean
  /** Whether an instance would start a batch at once. */
  readonly anyIdle: boolean
  /** When the request came that has waited longest; `Infinity` for none. */
  readonly oldestAtMs: number
  /** The instances of a group. */
  usesOf(group: number): readonly InstanceUse[]
  /** Has a group have so many instances; resolves when they serve, or are out. */
  resize(group: number, count: number): Promise<void>
}

/** A group of instances that scales by itself. */
export interface AutoscaledGroup {
  /** Its number among the model's. */
  readonly number: number
  readonly limits: AutoscaleLimits
}

interface Group extends AutoscaledGroup {
  memory: AutoscaleMemory
  /** Since when it is measured how busy its instances are ... */
  measuredFromMs: number
  /** ... and what they had been before. */
  busyBeforeMs: number
}

/**
 * Follows the load of a model with the number of its instances. It looks when requests come and runs end, at most once in the
 * time in which anything can have come of it, and by one timer while a group has more instances than it must have: at
 * rest there is none.
 */
export class Autoscaler {
  readonly #groups: readonly Group[]
  readonly #target: Autoscaled
  readonly #clock: Clock
  readonly #alarm: Alarm
  readonly #failed: (reason: Error) => void
  /** Before this time nothing that waits changes anything; `Infinity` while nothing does. */
  #upAtMs = Infinity
  /** By group since when the oldest request has waited for too long, and for how long it had then. */
  readonly #waiting = new Map<Group, { readonly fromMs: number; readonly waitedMs: number }>()
  #changing = false
  #closed = false

  /** @param failed told why a change could not be made. */
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

  /** Requests came, or runs ended. */
  readonly look = (): void => {
    if (this.#upAtMs !== Infinity && this.#clock.nowMs() >= this.#upAtMs) this.#decide()
  }

  /** Instances came or went that somebody else asked for, or that were lost. */
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
    if (this.#closed || this.#changing || this.#target.changing) return // after a change it is told
    const { anyIdle, oldestAtMs } = this.#target
    const nowMs = this.#clock.nowMs()
    const waitedMs = anyIdle ? 0 : Math.max(0, nowMs - oldestAtMs)
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
      const waitingMs = this.#waitingMs(group, waitedMs, nowMs)
      const decision = decideInstances(group.limits, group.memory, {
        nowMs,
        instances: uses.length,
        waitedMs,
        waitingMs,
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
      this.#alarm.set(Math.min(Math.max(downAtMs, nowMs + 1), nowMs + longestTimerMs)) // sums of times are not exact
  }

  /** For how long requests have been waiting for too long, and not by far shorter than at first: then they are being worked off. */
  #waitingMs(group: Group, waitedMs: number, nowMs: number): number {
    const before = this.#waiting.get(group)
    if (waitedMs < group.limits.scaleUpAfterMs) this.#waiting.delete(group)
    else if (before === undefined || waitedMs < workedOff * before.waitedMs)
      this.#waiting.set(group, { fromMs: nowMs, waitedMs })
    return nowMs - (this.#waiting.get(group)?.fromMs ?? nowMs)
  }

  #measure(group: Group, nowMs: number): void {
    group.measuredFromMs = nowMs
    group.busyBeforeMs = this.#target.usesOf(group.number).reduce((sum, { busyMs }) => sum + busyMs, 0)
  }

  /** Judges by nothing that was before. */
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
    // After a failure nothing is tried for a while.
    this.#startOver(nowMs, failed === null ? nowMs : nowMs + group.limits.scaleDownAfterMs)
    this.#decide()
  }
}
