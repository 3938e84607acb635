import type { ReadyEstimate } from '../schedule/answer-estimate.ts'
import type { LeasedRows } from '../native/row-block.ts'
import type { PriorityLevel } from '../schedule/priority-levels.ts'

/** Notified of what becomes of a {@link Preparation}. */
export interface Prepared {
  /** It is about to begin, at its turn; `false` when the request is not worth it any more, and was settled. */
  begins(): boolean
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
  /** The same of a copy that nobody else can change. */
  owned(): Preparation
  /** When it would be ready if it came now at a level; `inMs` is 0 where nothing like it was made yet. */
  estimate(level: PriorityLevel): ReadyEstimate
  /** Takes its place in line: the most urgent level goes first, and what came first within it. */
  begin(request: UnreadyRequest, prepared: Prepared): void
  /** Nobody wants it any more: what has not begun never does, and nobody is notified. */
  cancel(): void
}
