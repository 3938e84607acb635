import type { Batch } from './batch.ts'
import type { InferRequest } from '../request/infer-request.ts'

/** Runs that have to be done again, before anything else that waits. */
export class Retries {
  readonly #batches: Pick<Batch, 'requests' | 'reason' | 'alone'>[] = []
  readonly #rerunAfterCrash: boolean
  #requests = 0

  constructor(rerunAfterCrash: boolean) {
    this.#rerunAfterCrash = rerunAfterCrash
  }

  /** Requests waiting for another run. */
  get count(): number {
    return this.#requests
  }

  /** Whether the next one is to be on its worker alone. */
  get nextIsAlone(): boolean {
    return this.#batches[0]?.alone === true
  }

  /**
   * A run failed for several requests: runs its halves. With one culprit among n requests that makes two runs per
   * halving, 2 ceil(log2 n) in all, and every request is run at most 1 + ceil(log2 n) times whatever fails.
   */
  bisect({ requests, reason }: Pick<Batch, 'requests' | 'reason'>): void {
    const open = requests.filter(({ settled }) => !settled)
    const middle = Math.ceil(open.length / 2)
    this.#add(open.slice(0, middle), reason, false)
    this.#add(open.slice(middle), reason, false)
  }

  /** A run was stopped: runs what is left of it, whole, in halves or each by itself. */
  afterStop(batch: Pick<Batch, 'requests' | 'reason' | 'rerun'>): void {
    if (batch.rerun === 'halves') this.bisect(batch)
    else if (batch.rerun === 'singly')
      for (const request of batch.requests) this.#add(request.settled ? [] : [request], batch.reason, false)
    else
      this.#add(
        batch.requests.filter(({ settled }) => !settled),
        batch.reason,
        false,
      )
  }

  /**
   * A worker died under this batch: runs each of its requests by itself, where that is allowed and none had died under it
   * before.
   *
   * @returns the requests that are not run again.
   */
  afterDeath({ requests, reason }: Batch): readonly InferRequest[] {
    if (!this.#rerunAfterCrash) return requests
    const lost = requests.filter(({ crashed }) => crashed)
    for (const request of requests) {
      if (request.settled || request.crashed) continue
      request.crashed = true
      this.#add([request], reason, true)
    }
    return lost
  }

  /** Takes the next batch out; `null` for none. */
  take(): Pick<Batch, 'requests' | 'reason' | 'alone'> | null {
    const next = this.#batches.shift()
    if (next === undefined) return null
    this.#requests -= next.requests.length
    return next
  }

  /** Puts a batch back that was taken out and has not run. */
  putBack({ requests, reason, alone }: Batch): void {
    if (requests.length === 0) return
    this.#batches.unshift({ requests, reason, alone })
    this.#requests += requests.length
  }

  /** Leaves a request out that was withdrawn; false when it is not here. */
  cancel(request: InferRequest): boolean {
    const at = this.#batches.findIndex(({ requests }) => requests.includes(request))
    if (at === -1) return false
    const batch = this.#batches[at]!
    const requests = batch.requests.filter((other) => other !== request)
    this.#batches.splice(at, 1, ...(requests.length > 0 ? [{ ...batch, requests }] : []))
    this.#requests--
    return true
  }

  /** Takes everything out. */
  clear(): InferRequest[] {
    this.#requests = 0
    return this.#batches.splice(0).flatMap(({ requests }) => requests)
  }

  #add(requests: readonly InferRequest[], reason: Batch['reason'], alone: boolean): void {
    if (requests.length === 0) return
    this.#batches.push({ requests, reason, alone })
    this.#requests += requests.length
  }
}
