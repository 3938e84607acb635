/** Share of the admitted requests that may be late: a little less than one of 100. */
const lateShare = 0.0075
/** By how much one batch that is late as a whole raises the factor; one that is in time lowers it by so much less. */
const step = 0.1
const smallest = 0.5
const largest = 4

/**
 * How much of what runs spread by admission keeps free. No estimate is exact: how runs differ depends on what else the
 * machine does, and one that starts late makes all behind it late. So it is learned from the outcome, as a quantile is
 * by stochastic approximation (Robbins and Monro, 1951): every late request raises the factor and every one in time
 * lowers it a little, so that it stays where about `lateShare` of a batch are late on average, whatever the reason.
 */
export class SafetyFactor {
  /** Times the spread that is kept free. */
  factor = 1
  #dropped = 0

  /** Notes an admitted request that was dropped from the queue, as its deadline could no longer be met. */
  dropped(): void {
    this.#dropped++
  }

  /** Notes the requests of a batch that is done. */
  answered(requests: readonly { readonly deadlineAtMs: number | null }[], nowMs: number): void {
    let [admitted, late] = [this.#dropped, this.#dropped]
    this.#dropped = 0
    for (const { deadlineAtMs } of requests) {
      if (deadlineAtMs === null) continue
      admitted++
      if (nowMs > deadlineAtMs) late++
    }
    if (admitted === 0) return
    const share = late / admitted
    this.factor = Math.min(largest, Math.max(smallest, this.factor * (1 + step * (share - lateShare))))
  }
}
