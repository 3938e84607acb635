/** Each answer under load beside the one that the same request gets alone. */
export interface AccuracyResult {
  /** Answers that were compared. */
  readonly answers: number
  /** Different requests among them. */
  readonly samples: number
  /** Requests at once, under load. */
  readonly concurrency: number
  /** The largest relative difference of numbers that is no fault. */
  readonly tolerance: number
  /** Whether all answers are within it. */
  readonly within: boolean
  readonly outputs: readonly OutputDifference[]
  /** Requests that failed, alone or under load, by the code of the error. */
  readonly failures: Readonly<Record<string, number>>
  /** Batches of the run under load by their size: where all are of one row, nothing was joined, and little is shown. */
  readonly batchSizes: readonly { readonly batchSize: number; readonly count: number }[]
  /** Answers under load that came out of the response cache: they are no other run's. */
  readonly cacheHits: number
}

/** How far the answers of one output lie apart. */
export interface OutputDifference {
  readonly output: string
  /** Of the model's metadata, or of the first answer. */
  readonly type: string
  /** The largest difference of two numbers; `Infinity` where one is none, or shapes or texts differ. */
  readonly absolute: number
  /** The same relative to the largest number of its answer. */
  readonly relative: number
  /** How far answers to different requests lie apart, as {@link relative}: where that is 0, one for another would not show. */
  readonly spread: number
  /** Answers above the tolerance. */
  readonly above: number
  /** The request with the largest relative difference, counted from 0; `null` where there is no difference. */
  readonly sample: number | null
}
