import { ModelStats } from '../../observe/model-stats.ts'
import { refusalOf, type RejectionReason } from '../../observe/rejections.ts'

/** One request of a pipeline, as it is counted. */
interface CountedRun {
  readonly rows: number
  readonly madeAtMs: number
  readonly begunAtMs: number
}

/** Keeps the statistics of a pipeline as a whole: each of its requests is a batch of its own, and all of its steps are its run. */
export class PipelineCounts {
  readonly stats = new ModelStats()

  /** A request was refused before it was accepted. */
  refused(error: unknown): void {
    this.stats.refused(refusalOf(error, undefined))
  }

  /** The same, of one that had been aborted. */
  aborted(): void {
    this.stats.refused('cancelled')
  }

  answered({ rows, madeAtMs, begunAtMs }: CountedRun, nowMs: number): void {
    const times = { inputMs: 0, inferMs: nowMs - begunAtMs, outputMs: 0 }
    this.stats.ran(rows, times, false)
    this.stats.answered(madeAtMs, begunAtMs, times, nowMs)
  }

  failed({ madeAtMs }: CountedRun, nowMs: number, why: RejectionReason): void {
    this.stats.failed(why, nowMs - madeAtMs)
  }
}
