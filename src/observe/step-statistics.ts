import type { StatisticDuration } from './statistic-duration.ts'

/**
 * What became of one step of a pipeline. Each request that came to the step is counted once; to the models themselves it is a request
 * like any other, in statistics of their own.
 */
export interface StepStatistics {
  /** Its name in the pipeline. */
  readonly step: string
  /** The name of its model. */
  readonly model: string
  /** Requests that it has answered: from when it could begin to its answer, waiting included. */
  readonly success: StatisticDuration
  /** Those that it has failed, in the same way. */
  readonly fail: StatisticDuration
  /** Requests that had ended otherwise before it answered. */
  readonly cancelledCount: number
  /** Requests for which it was left out: by its `when`, or for want of a tensor. */
  readonly skippedCount: number
  /** Rows that this step sent to its model as requests of their own. 0 without `fanOut`. */
  readonly rowCount: number
}
