import { isTensorLike } from 'zerohop/internals'
import type { Sample, SampleSource } from './sample.ts'

/**
 * Requests of which no two are the same, however many are sent: each lies in memory of its own, and before one comes again
 * a number of its floats is made another. Requests without floats are not changed (whole numbers may be indices, texts may
 * be looked up): they come again as they are.
 */
export class UniqueSamples implements SampleSource {
  readonly #samples: readonly Sample[]
  readonly #random: () => number
  readonly #changes: boolean
  #sent = 0

  /**
   * @param samples all different; those that are made up may be changed.
   * @param random from 0 to 1; `null` where they must stay as they are.
   */
  constructor(samples: readonly Sample[], random: (() => number) | null) {
    this.#samples = samples
    this.#random = random ?? Math.random
    this.#changes = random !== null && samples.every((sample) => floatsOf(sample).length > 0)
  }

  get size(): number | null {
    return this.#changes ? null : this.#samples.length
  }

  next(): Sample {
    const turn = Math.floor(this.#sent / this.#samples.length)
    const sample = this.#samples[this.#sent++ % this.#samples.length]!
    if (turn > 0 && this.#changes) {
      for (const floats of floatsOf(sample)) floats[turn % floats.length] = this.#random()
    }
    return sample
  }
}

function floatsOf({ feeds }: Sample): (Float32Array | Float64Array)[] {
  return Object.values(feeds).flatMap((feed) => {
    const data = isTensorLike(feed) ? feed.data : feed
    return (data instanceof Float32Array || data instanceof Float64Array) && data.length > 0 ? [data] : []
  })
}
