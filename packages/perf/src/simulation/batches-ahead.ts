import { expiresAtMs } from 'zerohop/internals'
import type { Run, SimulatedInstance } from './simulated-instance.ts'
import type { SimulatedRequest } from './simulated-request.ts'

/** Batches that wait behind runs: what has them go back to their queues, as in the library. */
export class BatchesAhead {
  readonly #instances: readonly SimulatedInstance[]
  readonly #putBack: (run: Run) => void

  /** @param putBack lets the requests of a batch wait in their queue again. */
  constructor(instances: readonly SimulatedInstance[], putBack: (run: Run) => void) {
    this.#instances = instances
    this.#putBack = putBack
  }

  /** The models of which there are some. */
  get models(): number[] {
    return this.#instances.flatMap(({ behind }) => behind?.model ?? [])
  }

  /** Takes the batch back of which a request is part; false when there is none. */
  takeBackBatchOf(request: SimulatedRequest): boolean {
    const instance = this.#instances.find(({ behind }) => behind?.requests.includes(request))
    if (instance === undefined) return false
    this.#putBack(instance.takeBack()!)
    return true
  }

  /** Takes all of a model back, the last of them first: an instance is idle that could start them. */
  takeBack(model: number): void {
    const own = this.#instances.filter(({ behind }) => behind?.model === model)
    if (own.length > 1) own.sort((a, b) => b.behind!.number - a.behind!.number)
    for (const instance of own) this.#putBack(instance.takeBack()!)
  }

  /** The same where a request has come that is to be served before one of them. */
  yieldTo(model: number, request: SimulatedRequest): void {
    if (
      this.#instances.some(
        ({ behind }) => behind?.model === model && isOvertaken(behind.requests[0]!, request),
      )
    )
      this.takeBack(model)
  }
}

function isOvertaken(first: SimulatedRequest, by: SimulatedRequest): boolean {
  if (by.level.level < first.level.level) return true
  return by.bucketKey !== first.bucketKey && expiresAtMs(by) < expiresAtMs(first)
}
