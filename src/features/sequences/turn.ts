import type { InferRequest, SequenceTurn } from '../../request/infer-request.ts'
import type { TensorData } from '../../tensor/tensor.ts'
import type { Sequence } from './sequence.ts'

const nobody = () => {}

/** What a turn needs from whoever keeps the sequences. */
export interface TurnOwner {
  /** By index of the output: which of the states it gives; -1 for none. */
  stateOf(output: number): number
  /** @throws Error when the next request could not be given it. */
  checkState(state: number, dims: readonly number[]): void
  slotsWith(sequence: Sequence): number
  emptyRowLike(request: InferRequest): InferRequest
  ended(turn: Turn, succeeded: boolean, reason: unknown): void
}

/** One request as part of its sequence. */
export class Turn implements SequenceTurn {
  readonly sequence: Sequence
  readonly request: InferRequest
  /** Whether the sequence begins anew with it; also one behind such a request that was withdrawn. */
  isStart: boolean
  readonly isEnd: boolean
  /** Its bucket before its sequence had a place. */
  readonly shapeKey: string
  slot = -1
  /** Told when it is its turn, or will never be. */
  onTurn: () => void = nobody
  readonly #owner: TurnOwner
  /** The outputs that its caller asked for; `null` for all but states. */
  readonly #shown: readonly number[] | null

  constructor(
    owner: TurnOwner,
    sequence: Sequence,
    request: InferRequest,
    isStart: boolean,
    isEnd: boolean,
    shown: readonly number[] | null,
  ) {
    this.#owner = owner
    this.sequence = sequence
    this.request = request
    this.isStart = isStart
    this.isEnd = isEnd
    this.shapeKey = request.bucketKey
    this.#shown = shown
  }

  get slots(): number {
    return this.#owner.slotsWith(this.sequence)
  }

  leaveSlot(): void {
    this.slot = -1
  }

  emptyRow(): InferRequest {
    return this.#owner.emptyRowLike(this.request)
  }

  keeps(output: number): boolean {
    return this.#owner.stateOf(output) !== -1
  }

  hides(output: number): boolean {
    return this.keeps(output) && this.#shown?.includes(output) !== true
  }

  keep(output: number, data: TensorData | readonly string[], dims: readonly number[]): void {
    const state = this.#owner.stateOf(output)
    this.#owner.checkState(state, dims)
    this.sequence.state.put(state, data, dims)
  }

  ended(succeeded: boolean, reason?: unknown): void {
    this.#owner.ended(this, succeeded, reason)
  }
}
