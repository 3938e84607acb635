import type { RawValueMetadata } from '../tensor/metadata.ts'
import type { MailedValue } from '../tensor/values.ts'

/** What numbers do not say of something that a loop has done. */
export interface NativeCompletionDetails {
  /** ONNX Runtime's message when it failed. */
  readonly error: string | null
  /** Of a session that was opened: what it says of itself. */
  readonly inputs?: RawValueMetadata[]
  /** How many of its inputs a run needs; those after them are initializers that it may override. */
  readonly neededInputs?: number
  /** The same, or of a run: by output of the session, what does not lie in the slot. */
  readonly outputs: readonly (RawValueMetadata | MailedValue | null)[]
}

/** What loops have done, on its way to the isolate that made it. */
export interface NativeCompletionHub {
  /** Writes loop, kind, slot or question, start, start and end of the run, and whether there are details, of as many as fit; returns their count. */
  take(into: Float64Array): number
  /** Of the next that was taken with details. */
  takeDetails(): NativeCompletionDetails
}

/** A thread that opens models and runs batches. What is asked of it is answered through its hub. */
export interface NativeRunLoop {
  readonly id: number
  /** Whether its thread is doing something. */
  readonly busy: boolean
  open(
    questionId: number,
    sessionId: number,
    model: string | Uint8Array,
    bytesId: number,
    settings: readonly object[],
    shared: boolean,
  ): void
  /** `feeds` by input of the session, `outputs` the indices of those that are to be computed. */
  runSample(
    questionId: number,
    sessionId: number,
    feeds: readonly (MailedValue | null)[],
    outputs: readonly number[],
    keeps: boolean,
  ): void
  /** Releases a session and its slots. */
  close(questionId: number, sessionId: number): void
  defineSlot(slotId: number, sessionId: number, leaseId: number): void
  forgetSlot(slotId: number): void
  /** By input and output of the session: a place, `null` for what lies elsewhere, `undefined` for what is not given or not wanted. */
  defineLayout(
    slotId: number,
    layoutIndex: number,
    inputs: readonly unknown[],
    outputs: readonly unknown[],
  ): void
  submit(slotId: number, layoutIndex: number, apart?: readonly (MailedValue | null)[]): void
  /** Runs a batch on the calling thread; its completion is in the hub then, which is not woken. False when it cannot. */
  runHere(slotId: number, layoutIndex: number): boolean
  /** False when the thread has started it. */
  takeBack(slotId: number): boolean
  /** What was noted of a session, by whichever isolate; `''` for nothing. */
  note(sessionId: number, key: string): string
  setNote(sessionId: number, key: string, value: string): void
  /** Asks to have the mapped files of a session's model entered in the page table, as far as they are in memory. */
  enterPages(questionId: number, sessionId: number): void
  /** Asks to have the arena of a session give back what nothing uses. */
  shrinkArena(questionId: number, sessionId: number): void
  arena(sessionId: number): {
    readonly id: number
    readonly totalBytes: number
    readonly inUseBytes: number
    readonly mostInUseBytes: number
  } | null
  /** Stops a batch, which fails then; false when it is not here. */
  cancelBatch(slotId: number): boolean
  /** The same of what was asked. */
  cancelQuestion(questionId: number): boolean
  /** Begins nothing any more; true when the thread has ended, or never began. */
  end(): boolean
  /** As `end`, and what runs stops at its next operator. */
  stop(): boolean
  /** Lets go of memory and sessions, once the thread has ended; nothing may be asked of it any more. */
  dispose(): void
}

/** What the native addon runs models with. */
export interface NativeRuns {
  /** Opens ONNX Runtime's library, once for the process, and returns its version; throws why it cannot. */
  openOnnxRuntime(path: string): string
  /** Milliseconds of the clock by which loops tell the time. */
  nowMs(): number
  /** Milliseconds that the calling thread has computed. */
  threadCpuMs(): number
  /** Starts a loop, which ends with the calling thread; false when it was ended before. */
  startLoop(loopId: number, niceIncrement: number): boolean
  /** The process is about to end: loops that were told to stop are waited for, here and as their threads end, for 100 ms at most. */
  noteExit(): void
  readonly CompletionHub: new (wake: () => void) => NativeCompletionHub
  readonly RunLoop: new (hub: NativeCompletionHub) => NativeRunLoop
}
