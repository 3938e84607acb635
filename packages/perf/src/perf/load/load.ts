import type { Sample } from '../input/sample.ts'
import type { Recorder } from './recorder.ts'

/** Sends one request; rejects when it is not answered, or not as was expected. */
export type Send = (sample: Sample) => Promise<unknown>

/** Sends requests, each of which it tells a recorder of, from when it is started until it is stopped. */
export interface Load {
  /** Whether requests are sent whatever becomes of those before: what waits may then be more than can be waited for. */
  readonly isOpen: boolean
  /** Settles when it has sent all it had to, and each request has ended; never, for one that has no end. */
  readonly finished: Promise<void>
  /** Begins to send; may be called once. */
  start(send: Send, recorder: Recorder): void
  /** Sends nothing more; resolves when each request that was sent has ended. May be called more than once. */
  stop(): Promise<void>
}
