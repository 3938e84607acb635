import type { Clock } from '../base/clock.ts'
import type { RunTimes } from '../schedule/run-times.ts'
import type { RowBlocks } from '../native/row-blocks.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import type { Padding } from '../request/padding.ts'
import type { Batch } from './batch.ts'
import type { FinishedBatch } from './finished-batch.ts'
import type { UnpredictableOutputs } from './unpredictable-outputs.ts'

/** What an instance needs from its model. */
export interface BatchOwner {
  readonly metadata: ModelMetadata
  readonly padding: Padding | null
  readonly unpredictable: UnpredictableOutputs
  readonly clock: Clock
  /** `divides`: a load that fits one batch is run in parts, which are to overlap. */
  readonly times: { readonly runTimes: RunTimes; readonly divides: boolean }
  readonly instances: { readonly anyAhead: boolean; readonly rowBlocks?: RowBlocks | null }
  /** Who is told of what a run of a batch asks for; `null` where nobody looks on. */
  readonly observed: { askerOf(batch: Batch): object | null }
  readonly demand?: { readonly nextIsAlone: boolean }
  /**
   * The next batch for an instance, or `null`.
   *
   * @param startsInMs when a busy instance will be able to start it.
   */
  take(idle: boolean, startsInMs: number): Batch | null
  /** Whether requests wait that are not on their way. */
  readonly hasWaiting: boolean
  /** A batch that was handed ahead is reckoned to run from now on. */
  started(batch: Batch): void
  /** A batch comes back that has not started, from a thread that has ended or by being asked for. */
  takenBack(batch: Batch, threadEnded: boolean): void
  finished(batch: FinishedBatch): void
  failed(batch: Batch, message: string): void
  /** The thread died over a batch, or was left to itself with it. */
  lost(batch: Batch, reason: string, died: boolean): void
}
