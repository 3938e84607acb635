import type { Sample, SampleSource } from './sample.ts'

/** The same requests again and again, in their order, whoever sends them. */
export class SampleCycle implements SampleSource {
  readonly #samples: readonly Sample[]
  #next = 0

  /** @param samples at least one. */
  constructor(samples: readonly Sample[]) {
    this.#samples = samples
  }

  get size(): number {
    return this.#samples.length
  }

  next(): Sample {
    const sample = this.#samples[this.#next]!
    this.#next = this.#next + 1 === this.#samples.length ? 0 : this.#next + 1
    return sample
  }
}
