import { mulberry32, type Random } from '../seeded-random.ts'
import { firstNeighbour, localMeans, neighbours, runningAtOnce, type RecordedRun } from './recorded-run.ts'
import type { RunDurations } from './service-times.ts'
import { SizeMeans } from './size-means.ts'

/** As often are sizes, times and slowing reckoned by each other; they settle within fewer. */
const refinements = 12

/**
 * Run times of a recording: by size, by how fast the machine was at the time, and by how many ran at once. What one takes is
 * drawn from those that were recorded about the same time: a machine that is shared has its slow seconds, and their
 * queues, which runs drawn from all of the recording would not have.
 */
export class RecordedDurations implements RunDurations {
  /** By what share each further run that goes on at the same time slows the others. */
  slowing = 0
  readonly #runs: readonly RecordedRun[]
  readonly #atOnce: Float64Array
  readonly #random: Random
  readonly #speed: number
  #means = new Map<string, SizeMeans>()
  /** Of each run, alone on the machine: what it took, to the mean of its size. */
  #ratios: Float64Array
  /** The mean of those about its time. */
  #local: Float64Array

  /**
   * @param runs at least one.
   * @param speed of the replay: a moment of the simulation is so many times as late in the recording.
   */
  constructor(runs: readonly RecordedRun[], seed: number, speed = 1) {
    this.#runs = [...runs].sort((a, b) => a.atMs - b.atMs)
    this.#atOnce = runningAtOnce(this.#runs)
    this.#random = mulberry32(seed)
    this.#speed = speed
    this.#local = new Float64Array(runs.length).fill(1)
    this.#ratios = this.#local
    for (let round = 0; round < refinements; round++) this.#refine()
  }

  /** What runs take when 1, 2, ... of them run at once, in times of what they take alone. */
  slowdown(instances: number): number[] {
    return Array.from({ length: instances }, (_, others) => 1 + this.slowing * others)
  }

  draw(bucketKey: string, rows: number, atMs: number): number {
    const count = this.#runs.length
    const from = firstNeighbour(this.#indexAt(atMs * this.#speed), count)
    const near = from + Math.floor(this.#random() * Math.min(neighbours, count))
    return this.#mean(bucketKey, rows) * this.#ratios[near]!
  }

  #refine(): void {
    const alone = Float64Array.from(this.#runs, ({ ms }, index) => ms / (1 + this.slowing * (this.#atOnce[index]! - 1)))
    this.#means = new Map()
    for (const [index, { bucketKey, rows }] of this.#runs.entries()) {
      let means = this.#means.get(bucketKey)
      if (means === undefined) this.#means.set(bucketKey, (means = new SizeMeans()))
      means.add(rows, alone[index]! / this.#local[index]!)
    }
    this.#ratios = Float64Array.from(this.#runs, ({ bucketKey, rows }, index) => alone[index]! / this.#mean(bucketKey, rows))
    this.#local = localMeans(this.#ratios)
    this.slowing = this.#reckonSlowing()
  }

  /**
   * By what share a run took longer than its neighbours while more ran at once than beside them. Only neighbours are
   * compared: when the machine is slow, runs take long and more of them go on at once, and neither is for the other.
   */
  #reckonSlowing(): number {
    const usual = localMeans(this.#atOnce)
    let [both, own] = [0, 0]
    for (const [index, atOnce] of this.#atOnce.entries()) {
      const more = atOnce - usual[index]!
      const ratio = (this.#ratios[index]! / this.#local[index]!) * (1 + this.slowing * (atOnce - 1))
      both += more * ratio
      own += more * more
    }
    // Nothing runs faster for not being alone, and two never take more than one after the other.
    return own === 0 ? 0 : Math.min(1, Math.max(0, both / own))
  }

  #mean(bucketKey: string, rows: number): number {
    return (this.#means.get(bucketKey) ?? this.#means.values().next().value!).of(rows)
  }

  /** The first run that started at or after a moment. */
  #indexAt(atMs: number): number {
    let [low, high] = [0, this.#runs.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#runs[middle]!.atMs < atMs) low = middle + 1
      else high = middle
    }
    return low
  }
}
