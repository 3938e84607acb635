import type { FromWorker } from '../executor/binding/protocol.ts'
import type { RunTimestamps } from '../executor/executor.ts'

/** What a tenant does when its worker offers it a turn. */
export type Offer = 'submitted' | 'waits-for-idle' | 'nothing'

/** An instance of a model, as its worker sees it. */
export interface Tenant {
  /** Its share of the worker relative to others. */
  readonly weight: number
  /**
   * Submits one batch if it has one to send.
   * @param idle true when the worker would start it at once, false when it would wait behind the running one.
   * @param startsInMs when that one is reckoned to be done; 0 for an idle worker.
   */
  offer(idle: boolean, startsInMs: number): Offer
  completed(slotId: number, times: RunTimestamps): void
  done(message: Extract<FromWorker, { type: 'done' }>): void
  /** The thread died; batches in flight are lost. */
  lost(reason: string): void
  /** A new thread has come up: open the session there. Rejects when that fails. */
  restore(): Promise<void>
  /** No thread can be had, or the session cannot be opened on it. */
  abandoned(reason: string): void
}
