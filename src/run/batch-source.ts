import type { MailedOutputs, RowFailures, RunTimestamps } from './executors/executor.ts'
import type { MailedValue } from '../tensor/values.ts'

/** A batch that lies in its slot, ready to be run. */
export interface PreparedBatch {
  readonly slotId: number
  readonly layoutIndex: number
  /** Inputs that do not lie in the slot. */
  readonly mailed: readonly (MailedValue | null)[] | null
  /** What it is reckoned to take, in milliseconds; 0 when nobody knows. */
  readonly runMs: number
  /** Whether nothing else may be on the worker meanwhile. */
  readonly alone: boolean
  /** Whether nobody but the worker runs it: it may have to be stopped, or this thread has something to do meanwhile. */
  readonly elsewhere: boolean
}

/** Who has batches for a worker: an instance of a model. */
export interface BatchSource {
  /** Its share of the worker relative to others. */
  readonly weight: number
  /** Whether it has work that is not on its way to any worker. */
  readonly hasWaiting: boolean
  /** Whether the next batch is one that nothing else may be on the worker with. */
  readonly nextIsAlone?: boolean
  /** Whether a batch of its model waits behind the run of some worker, which another one may have once it is idle. */
  readonly aheadElsewhere: boolean
  /**
   * Prepares its next batch; `'when idle'` when it has one that only an idle worker should be given, or the results of its last run
   * are still to be handed out: nobody else has its turn meanwhile; `null` for none.
   *
   * @param idle whether the worker would start it at once, or it would wait behind the running one.
   * @param startsInMs when that one is reckoned to be done; 0 for an idle worker.
   */
  nextBatch(idle: boolean, startsInMs: number): PreparedBatch | 'when idle' | null
  /** A batch that was handed ahead is reckoned to run from now on. */
  started(slotId: number): void
  finished(
    slotId: number,
    times: Readonly<RunTimestamps>,
    mailed: MailedOutputs | null,
    failures: RowFailures | null,
  ): void
  /**
   * @param stillRuns as of {@link lost}.
   * @param tookMs for how long it ran.
   */
  failed(slotId: number, message: string, stillRuns: Promise<void> | null, tookMs: number): void
  /** A batch comes back that had not started, because the thread has ended or it was asked for. */
  takenBack(slotId: number, threadEnded: boolean): void
  /**
   * The thread died over a batch that had started, or was left to itself with it.
   *
   * @param stillRuns resolves when the run touches the slot no more; `null` for one that does not any more.
   */
  lost(slotId: number, reason: string, stillRuns: Promise<void> | null, tookMs: number): void
}
