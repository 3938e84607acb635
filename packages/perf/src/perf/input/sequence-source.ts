import type { InferOptions } from 'zerohop'
import type { Sample, SampleSource } from './sample-source.ts'

/** How to make sequences. */
export interface SequenceSettings {
  /** Requests per sequence, for data without a length of its own. */
  readonly length: number
  /** Variation of the length: 0.2 for 20 %. */
  readonly variation: number
  /** The first id; further ones follow in order. */
  readonly firstId: number
  readonly lastId: number
}

/** An open sequence. */
interface OpenSequence {
  readonly id: number
  readonly samples: readonly Sample[]
  readonly length: number
  /** Requests sent. */
  sent: number
}

/**
 * Each caller has its own sequence, and begins another when it ends. Ids are reused in turn, except those of
 * open sequences.
 */
export class SequenceSource implements SampleSource {
  readonly #streams: readonly (readonly Sample[])[]
  readonly #hasLengths: boolean
  readonly #settings: SequenceSettings
  readonly #random: () => number
  readonly #open: (OpenSequence | undefined)[] = []
  /** Ids of the open sequences. */
  readonly #ids = new Set<number>()
  #begun = 0
  #idsTaken = 0

  /**
   * @param streams the requests of the sequences; sequences use them in turn.
   * @param hasLengths whether a sequence ends with its stream. Otherwise the stream repeats.
   */
  constructor(
    streams: readonly (readonly Sample[])[],
    hasLengths: boolean,
    settings: SequenceSettings,
    random: () => number,
  ) {
    this.#streams = streams
    this.#hasLengths = hasLengths
    this.#settings = settings
    this.#random = random
  }

  get size(): number {
    return this.#streams.reduce((sum, { length }) => sum + length, 0)
  }

  get sequenceCount(): number {
    return this.#begun
  }

  next(caller: number): Sample {
    const sequence = (this.#open[caller] ??= this.#begin())
    const sample = sequence.samples[sequence.sent % sequence.samples.length]!
    const start = sequence.sent++ === 0
    const end = sequence.sent === sequence.length
    if (end) this.#close(caller)
    return of(sample, { sequenceId: sequence.id, sequenceStart: start, sequenceEnd: end })
  }

  failed(caller: number): void {
    this.#close(caller)
  }

  endings(): Sample[] {
    const left = this.#open.flatMap((sequence) => sequence ?? [])
    this.#open.length = 0
    this.#ids.clear()
    return left.map(({ id, samples, sent }) =>
      of(samples[sent % samples.length]!, { sequenceId: id, sequenceEnd: true }),
    )
  }

  #begin(): OpenSequence {
    const { length, variation } = this.#settings
    const samples = this.#streams[this.#begun++ % this.#streams.length]!
    const varied = Math.max(1, Math.round(length * (1 + variation * (2 * this.#random() - 1))))
    return { id: this.#freeId(), samples, length: this.#hasLengths ? samples.length : varied, sent: 0 }
  }

  #close(caller: number): void {
    const sequence = this.#open[caller]
    if (sequence !== undefined) this.#ids.delete(sequence.id)
    this.#open[caller] = undefined
  }

  /** The next id that no open sequence has; any id, if there are fewer ids than callers. */
  #freeId(): number {
    const { firstId, lastId } = this.#settings
    const count = lastId - firstId + 1
    let id: number
    do id = firstId + (this.#idsTaken++ % count)
    while (this.#ids.has(id) && this.#ids.size < count)
    this.#ids.add(id)
    return id
  }
}

function of(sample: Sample, sequence: InferOptions): Sample {
  return { ...sample, options: { ...sample.options, ...sequence } }
}
