import { mulberry32 } from 'zerohop/internals'
import { RecordedMoments } from './recorded-moments.ts'
import { lengthOf, localMeans, localMedians, runningAtOnce, type RecordedRun } from './recorded-run.ts'
import type { RunDurations } from './service-times.ts'
import { SizeMedians } from './size-medians.ts'

/** As often are sizes, times and slowing reckoned by each other; they settle within fewer. */
const refinements = 12
/** No run takes no time: a recording tells a tenth of a microsecond. */
const leastMs = 0.0001

/**
 * Run times of a recording: by size, by how fast the machine was at the time, and by how many ran at once. What one takes is
 * taken from those of the requests that came about then: a machine that is shared has its slow seconds, and their
 * queues, and stalls that come once, which runs drawn from all of the recording would not have.
 */
export class RecordedDurations implements RunDurations {
  /** By what share each further run that goes on at the same time slows the others. */
  slowing = 0
  readonly #runs: readonly RecordedRun[]
  readonly #atOnce: Float64Array
  readonly #moments: RecordedMoments
  /** What each took, were it alone on the machine. */
  #aloneMs: Float64Array
  #usual = new Map<string, SizeMedians>()
  /** How many times as long as usual runs took about the time of each. */
  #local: Float64Array

  /** @param runs at least one. */
  constructor(runs: readonly RecordedRun[], seed: number) {
    this.#runs = runs
      .map((run) => ({ ...run, ms: Math.max(leastMs, run.ms) }))
      .sort((a, b) => a.request - b.request)
    this.#atOnce = runningAtOnce(this.#runs)
    this.#moments = new RecordedMoments(
      this.#runs.map(({ request }) => request),
      lengthOf(this.#runs),
      mulberry32(seed),
    )
    this.#local = new Float64Array(runs.length).fill(1)
    this.#aloneMs = this.#local
    for (let round = 0; round < refinements; round++) this.#refine()
  }

  /** What runs take when 1, 2, ... of them run at once, in times of what they take alone. */
  slowdown(instances: number): number[] {
    return Array.from({ length: instances }, (_, others) => 1 + this.slowing * others)
  }

  expectedMs(bucketKey: string, rows: number): number {
    return (this.#usual.get(bucketKey) ?? this.#usual.values().next().value!).of(rows)
  }

  draw(bucketKey: string, rows: number, _atMs: number, request: number): number {
    const { index: near, again } = this.#moments.take(request)
    const { bucketKey: itsKey, rows: itsRows } = this.#runs[near]!
    const local = this.#local[near]!
    const itsMs = this.expectedMs(itsKey, itsRows) * local
    const ms = this.expectedMs(bucketKey, rows) * local
    const moreMs = Math.min(this.#aloneMs[near]! - itsMs, again ? itsMs : Infinity)
    // A thread that was held up is so for as long, whatever it runs; one that was fast is so in proportion.
    return moreMs > 0 ? ms + moreMs : (ms * this.#aloneMs[near]!) / itsMs
  }

  #refine(): void {
    const { slowing } = this
    this.#aloneMs = Float64Array.from(
      this.#runs,
      ({ ms }, index) => ms / (1 + slowing * (this.#atOnce[index]! - 1)),
    )
    const byBucket = new Map<string, Map<number, number[]>>()
    for (const [index, { bucketKey, rows }] of this.#runs.entries()) {
      let sizes = byBucket.get(bucketKey)
      if (sizes === undefined) byBucket.set(bucketKey, (sizes = new Map()))
      const ms = this.#aloneMs[index]! / this.#local[index]!
      const seen = sizes.get(rows)
      if (seen === undefined) sizes.set(rows, [ms])
      else seen.push(ms)
    }
    this.#usual = new Map([...byBucket].map(([bucketKey, sizes]) => [bucketKey, new SizeMedians(sizes)]))
    const ratios = Float64Array.from(
      this.#runs,
      ({ bucketKey, rows }, index) => this.#aloneMs[index]! / this.expectedMs(bucketKey, rows),
    )
    this.#local = localMedians(ratios)
    this.slowing = this.#reckonSlowing(ratios)
  }

  /**
   * By what share a run took longer than its neighbours while more ran at once than beside them. Only neighbours are
   * compared: when the machine is slow, runs take long and more of them go on at once, and neither is for the other.
   */
  #reckonSlowing(ratios: Float64Array): number {
    const usual = localMeans(this.#atOnce)
    let [both, own] = [0, 0]
    for (const [index, atOnce] of this.#atOnce.entries()) {
      const more = atOnce - usual[index]!
      both += more * (ratios[index]! / this.#local[index]!) * (1 + this.slowing * (atOnce - 1))
      own += more * more
    }
    // Nothing runs faster for not being alone, and two never take more than one after the other.
    return own === 0 ? 0 : Math.min(1, Math.max(0, both / own))
  }
}
