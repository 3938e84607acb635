// What belongs to a request beside its data: the preparation of its inputs, its sequence, its followers and its caller.
import { InferenceError } from '../errors.ts'
import type { LeasedRows } from '../native/row-blocks.ts'
import type { TensorData } from '../tensor/tensor.ts'
import type { Answer, InferRequest, PriorityLevel } from './infer-request.ts'

/** Notified once when a request is settled. */
export interface RequestFollower {
  /** @param reason of a failure that is not its caller's withdrawal. */
  ended(succeeded: boolean, reason: unknown, answer: Answer | null): void
}

/** What a request is to the sequence that it belongs to. */
export interface SequenceTurn extends RequestFollower {
  /** Its place in a batch; -1 for whichever is free. */
  readonly slot: number
  /** Rows of a batch in which each sequence has its place. */
  readonly slots: number
  /** It runs by itself, as the model's rows turned out to be none: no others stand beside it. */
  leaveSlot(): void
  /** A row that stands for a sequence without a request. */
  emptyRow(): InferRequest
  /** Whether an output is kept for the next request of the sequence. */
  keeps(output: number): boolean
  /** Whether the answer is to be without it. */
  hides(output: number): boolean
  /** Takes a copy of such an output. */
  keep(output: number, data: TensorData | readonly string[], dims: readonly number[]): void
}

/** Counts a request that no caller made: a part or a step of another request, which is not counted by itself. */
export interface RunAccount {
  /** It is about to be answered by a run, which it has waited for until `begunAtMs`. */
  ran(
    begunAtMs: number,
    times: { readonly inputMs: number; readonly inferMs: number; readonly outputMs: number },
  ): void
}

export class BothFollowers implements RequestFollower {
  readonly #first: RequestFollower
  readonly #second: RequestFollower

  constructor(first: RequestFollower, second: RequestFollower) {
    this.#first = first
    this.#second = second
  }

  ended(succeeded: boolean, reason: unknown, answer: Answer | null): void {
    this.#first.ended(succeeded, reason, answer)
    this.#second.ended(succeeded, reason, answer)
  }
}

/** When the inputs of a request will be there, in milliseconds from now. */
export interface ReadyEstimate {
  readonly inMs: number
  /** By how much one of 100 is later. */
  readonly spreadMs: number
  /** Whether nothing stands before it. */
  readonly isNext: boolean
}

/** Notified of what becomes of a {@link Preparation}. */
export interface Prepared {
  /**
   * It is about to begin, at its turn. Returns `false` if the request cannot be in time any more; it is settled then.
   *
   * @param readyInMs how long it takes at best.
   */
  begins(readyInMs: number): boolean
  /**
   * All inputs of the request are there.
   *
   * @param leased where they lie, if that is where they will be run.
   */
  ready(leased: LeasedRows | null): void
  /** An input could not be made. */
  failed(error: unknown): void
}

/** The request whose inputs are made, as much of it as that takes. */
export interface UnreadyRequest {
  readonly level: PriorityLevel
  readonly settled: boolean
  /** By input of the model; of those that are made, something of the right size stands there until they are. */
  readonly data: readonly unknown[]
}

/** Inputs of a request that are made after it has its place in the queue: encoded images, which are decoded. */
export interface Preparation {
  /** By index of the input, what it is made of. */
  readonly sources: ReadonlyMap<number, Uint8Array>
  /** The same of a copy of the sources, which the caller cannot change. */
  owned(): Preparation
  /** When it would be ready if it came now at a level; `inMs` is 0 where nothing like it was made yet. */
  estimate(level: PriorityLevel): ReadyEstimate
  /** Takes its place in line: the most urgent level goes first, and what came first within it. */
  begin(request: UnreadyRequest, prepared: Prepared): void
  /** Its request is settled: what has not begun never begins, and {@link Prepared} is not called. */
  cancel(): void
}

/**
 * Rejects the promise that a caller was given. One that has timed out is rejected from within the queue, where no frame is its
 * caller's: its error gets the stack of the async functions that await the call, as far as V8 knows them. It costs some
 * microseconds, and only those that time out.
 *
 * @param resolve of the same promise.
 */
export function rejectCaller(
  reason: unknown,
  resolve: (answer: never) => void,
  reject: (reason: unknown) => void,
): void {
  if (reason instanceof InferenceError && reason.code === 'ERR_TIMEOUT')
    resolve(thrownToCaller(reason) as never)
  else reject(reason)
}

/** Rejects with an error as if it were thrown where the promise that this one resolves is awaited. */
async function thrownToCaller(error: InferenceError): Promise<never> {
  const turn = Promise.resolve()
  await turn
  await turn // only now that promise waits for this one, and V8 finds from here what awaits that promise
  Error.captureStackTrace(error, thrownToCaller)
  throw error
}
