import type { OpenOptions } from '../../options/session-options.ts'
import type { SlotMemory } from '../../native/staging-pool.ts'
import type { Carrier, RawValueMetadata } from '../../tensor/metadata.ts'
import type { MailedValue } from '../../tensor/values.ts'
import type { Arena } from '../../observe/model-statistics.ts'
import type { MailedOutputs, RowFailures } from '../../schedule/batch.ts'

/** A tensor's place in a slot. */
export interface TensorPlace {
  readonly offset: number
  readonly dims: readonly number[]
  /** Where each row has dims of its own: the place of an int32 for each of them. `dims` are the room there is. */
  readonly rowDims?: { readonly offset: number; readonly rows: number }
}

/** How one batch lies in its slot. */
export interface SlotLayout {
  /** `null`: the input travels by message (strings, and what is no tensor). `undefined`: an optional one that is not given. */
  readonly inputs: readonly (TensorPlace | null | undefined)[]
  /** `null`: the size is known only after the run, the output travels by message. `undefined`: not wanted. */
  readonly outputs: readonly (TensorPlace | null | undefined)[]
}

/** What one run took, in milliseconds on the application thread's clock. */
export interface RunTimestamps {
  startMs: number
  inferStartMs: number
  inferEndMs: number
  endMs: number
  /** Whether it was run by the application's thread. */
  inline?: boolean
  /** Of a run that was given up and goes on: resolves when it touches the slot no more. */
  stillRuns?: Promise<void>
}

/** A session that is being opened for whichever thread asks for the same. */
export interface OpeningAhead {
  /** Resolves when it is worth a call of {@link Executor.open}. Rejects with ONNX Runtime's message; soon, once it is released. */
  readonly opened: Promise<void>
  /** Ends the opening, or lets go of the session, which stays as long as a thread has it. May be called twice. */
  release(): void
}

/** What a session reports of itself when it was opened. */
export interface OpenedSession {
  readonly inputs: RawValueMetadata[]
  readonly outputs: RawValueMetadata[]
  /** What of that can be served is up to it. */
  readonly carrier: Carrier
  /** The same number is the same session, which instances with the same settings share as long as none of its files changes; left out where none is shared. */
  readonly shared?: number
}

/** What a run gave that is for no caller. */
export interface SampleRun {
  /** ONNX Runtime's message when it failed. */
  readonly error: string | null
  readonly runMs: number
  /** The outputs that can be served, in their order; none when it failed, or when they were not wanted. */
  readonly outputs: readonly MailedValue[]
}

/** What was asked of a thread that is gone. */
export class ThreadEndedError extends Error {
  override readonly name = 'ThreadEndedError'

  constructor() {
    super('The worker thread has ended.')
  }
}

/** Notified of what happens on a thread. */
export interface ExecutorEvents {
  /**
   * A batch is done. `times` is reused: read it at once.
   *
   * @param error ONNX Runtime's message when it failed.
   * @param mailed `null` when all outputs lie in the slot.
   * @param failures left out, or `null`, for none.
   */
  finished(
    slotId: number,
    times: Readonly<RunTimestamps>,
    error: string | null,
    mailed: MailedOutputs | null,
    failures?: RowFailures | null,
  ): void
  /** The thread is gone although it was not told to go. */
  died(): void
}

/**
 * One thread that runs models, and the only way to it. A batch that was submitted can be revoked until the thread has
 * started it, also when the thread is gone.
 */
export interface Executor {
  /** Batches that run at the same time; left out for 1. One more can wait behind them. */
  readonly concurrency?: number
  /**
   * Opens a session; rejects with ONNX Runtime's message, or when the thread dies.
   *
   * @param model its path, or its bytes.
   */
  open(sessionId: number, model: string | SharedArrayBuffer, options: OpenOptions): Promise<OpenedSession>
  /**
   * Opens a session on a thread on which nothing is run, so that {@link open} finds it there and holds up no run; `null` where
   * sessions are not shared among threads.
   */
  openAhead?(model: string | SharedArrayBuffer, options: OpenOptions): OpeningAhead | null
  /** Runs a session once on sample inputs; rejects when the thread dies. */
  runSample(
    sessionId: number,
    feeds: readonly (MailedValue | null)[],
    wantsOutputs: boolean,
  ): Promise<SampleRun>
  /** Releases a session and its slots; resolves also when the thread dies over it. */
  close(sessionId: number): Promise<void>
  defineSlot(slotId: number, sessionId: number, memory: SlotMemory): void
  /** Has the thread let go of a slot's memory, which is given back; before another batch it is defined anew. */
  forgetSlot(slotId: number): void
  defineLayout(slotId: number, layoutIndex: number, layout: SlotLayout): void
  /** Of an executor whose runs may ask for others: the observed request that the next batch of a slot is for; `null` where no observer watches. */
  runsFor?(slotId: number, asker: object | null): void
  /**
   * Dispatches a batch.
   *
   * @param mailed inputs that do not lie in the slot.
   * @param onSecond whether to run it on the second session, if there is one (`secondThreads`).
   */
  submit(
    slotId: number,
    layoutIndex: number,
    mailed: readonly (MailedValue | null)[] | null,
    onSecond: boolean,
  ): void
  /** Listens for what was submitted, after each batch; left out where that wakes the thread by itself. */
  listen?(): void
  /**
   * Runs a batch on the calling thread; it is reported as any other, before this returns or soon after. False when that cannot be done.
   *
   * @param inHalves whether the other thread may run half of its rows meanwhile, if it has nothing else to do.
   */
  runHere?(slotId: number, layoutIndex: number, onSecond: boolean, inHalves: boolean): boolean
  /** Whether the calling thread may wait for a half that the other thread runs; left out for not. */
  readonly runsHalves?: boolean
  /** Revokes a batch; false when the thread has started it. */
  revoke(slotId: number): boolean
  /**
   * Stops the run of a batch, which fails soon after; false when it does not run, or cannot be stopped.
   *
   * @param mustEnd whether it has to end, whatever that costs, or is only not wanted any more.
   */
  cancel(slotId: number, mustEnd: boolean): boolean
  /** Stops what was asked for a session and is not answered, which rejects or fails soon after; false when there is none, or it cannot be stopped. */
  cancelWork(sessionId: number): boolean
  /** What was noted of a shared session, by any that has it; `''` for nothing. */
  note?(sessionId: number, key: string): string
  setNote?(sessionId: number, key: string, value: string): void
  /** Has the arena of a session give back what nothing uses. */
  shrinkArena?(sessionId: number): Promise<void>
  /** What the arena of a session holds now; `null` for a session without one. */
  arena?(sessionId: number): Arena | null
  /** Reports finished batches to the events. */
  drainCompletions(): void
  /** Asks the thread to end its loop; resolves once it has. */
  exit(): Promise<void>
  /** Gives up on a thread that never started serving, or does not come back: what was asked of it rejects. Should it come up after all, it ends its loop. */
  abandon(): void
  /** Forbids the thread to enter ONNX Runtime again; resolves when it is not inside any more. */
  stop(): Promise<void>
}

const ids = new WeakMap<ArrayBufferLike, number>()

/** A number of its own for bytes, of a model or of a file that belongs to it, by which the sessions that were opened from them are known. */
export function bytesId(bytes: ArrayBufferLike): number {
  let id = ids.get(bytes)
  // No count: other isolates have bytes, too.
  if (id === undefined) ids.set(bytes, (id = Math.floor(Math.random() * Number.MAX_SAFE_INTEGER)))
  return id
}
