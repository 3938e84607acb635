import type { BatchTimes } from '../../observe/model-stats.ts'
import { InferRequest, type RunAccount } from '../../request/infer-request.ts'
import { SplitRequest } from '../../schedule/split-request.ts'

/** One `infer()` of a model whose requests may share what they get: it waits for a run, and in no queue itself. */
export class Caller extends InferRequest {
  /** The run that it waits for; `null` before, and when it has ended. */
  run: SharedRun | null = null
}

/** A run that any number of equal requests wait for. */
export class SharedRun implements RunAccount {
  readonly key: string
  /** For whom it was begun, who may have left. */
  readonly first: Caller
  readonly callers = new Set<Caller>()
  /** What the run took that it has come to; charged to one caller, and `null` afterwards. */
  times: BatchTimes | null = null
  begunAtMs = 0
  /** What the scheduler knows of it: a request without a caller of its own, whose limits are those of whoever waits longest. */
  request!: InferRequest

  constructor(key: string, first: Caller) {
    this.key = key
    this.first = first
    this.#take(first)
  }

  ran(begunAtMs: number, times: BatchTimes): void {
    this.begunAtMs = begunAtMs
    this.times = times
  }

  /** Whether it has yet to begin, or some part of it has. */
  get waits(): boolean {
    return this.#requests.some(({ line, ahead, held }) => line !== null || ahead || held)
  }

  /**
   * Whether another request may wait for it: not where it would have a run of its own earlier, or one that may take longer.
   *
   * @param maxRunMs of the other; 0 when it says nothing of that.
   */
  admits({ level }: Caller, maxRunMs: number): boolean {
    const { request } = this
    if (request.maxRunMs !== maxRunMs) return false
    return (
      !this.waits || (request.level.level <= level.level && !this.#requests.some(({ delayed }) => delayed))
    )
  }

  /** Takes another caller in, for whom it may have to wait longer. */
  join(caller: Caller): void {
    this.#take(caller)
    for (const request of this.#requests) {
      request.timeoutAtMs = later(request.timeoutAtMs, caller.timeoutAtMs)
      request.deadlineAtMs = later(request.deadlineAtMs, caller.deadlineAtMs)
    }
  }

  /** Whether anybody is left who waits for it when this caller does no more. */
  leave(caller: Caller): boolean {
    caller.run = null
    this.callers.delete(caller)
    return this.callers.size > 0
  }

  #take(caller: Caller): void {
    caller.run = this
    this.callers.add(caller)
  }

  /** What of it waits in the queue; where it was split, its parts do. */
  get #requests(): readonly InferRequest[] {
    return this.request instanceof SplitRequest ? [this.request, ...this.request.parts] : [this.request]
  }
}

/** Of two times the later; `null` is never. */
function later(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : Math.max(a, b)
}
