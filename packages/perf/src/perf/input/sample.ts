import type { Feeds, InferOptions } from 'zerohop'

/** One request, ready to be sent. */
export interface Sample {
  readonly feeds: Feeds
  /** Rows of it; 1 where requests have none. */
  readonly rows: number
  /** Options of `infer()`; the ids of sequences, not least. Default: none. */
  readonly options?: InferOptions
  /** What it has to be answered with (`validation_data`): the bytes of each output, or its strings. Default: anything. */
  readonly expected?: ReadonlyMap<string, Uint8Array | readonly string[]>
}

/** Where requests come from. */
export interface SampleSource {
  /** How many different requests there are, before they come again; `null` where there is no end of them. */
  readonly size: number | null
  /**
   * The next request.
   *
   * @param caller who sends it, from 0: each caller has a sequence of its own, where there are sequences.
   */
  next(caller: number): Sample
  /** A request of a caller was not answered: where there are sequences its next begins another. */
  failed?(caller: number): void
  /** What ends sequences that are under way; each caller begins another afterwards. */
  endings?(): Sample[]
  /** Sequences that were begun so far; left out where there are none. */
  readonly sequenceCount?: number
}
