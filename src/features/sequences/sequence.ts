import type { SequenceId } from '../../options/infer-options.ts'
import type { InferenceError } from '../../errors.ts'
import type { RejectionReason } from '../../observe/rejections.ts'
import type { InferRequest } from '../../request/infer-request.ts'
import type { SequenceTurn } from '../../request/participants.ts'
import type { TensorData } from '../../tensor/tensor.ts'
import type { SequenceInputs } from './sequence-inputs.ts'
import type { Sequences } from './sequences.ts'
import type { StateTensors } from './state-tensors.ts'

const noop = () => {}

/** One sequence: its requests in order of their calls, of which one at a time is in flight. */
export class Sequence {
  readonly id: SequenceId
  /** The id as text; ids of different types have different texts. */
  readonly key: string
  /** The id as data for the model; `null` if the model does not take it. */
  readonly correlation: TensorData | readonly string[] | null
  readonly state: StateTensors
  /** Its place among the active sequences; `null` while it waits for one, and after its end. */
  place: Place | null = null
  /** The request in flight; `null` if there is none. */
  current: InferRequest | null = null
  /** The requests after that. */
  readonly waiting = new Set<InferRequest>()
  /** Whether one of its requests has been answered since it began. */
  answered = false
  /** Whether one of its requests has been sent since it began. */
  sent = false
  /** Whether the last request of the previous sequence with this id has ended. */
  predecessorEnded = false
  /** Whether the sequence is removed. */
  removed = false
  /** Whether the next call restarts it, because the request that was to do so was cancelled. */
  restartNext = false
  /** Whether its last request has been called: the next one has to restart it. */
  lastCalled = false
  /** The stream that began it; `null` if requests give the sequence id themselves. */
  owner: object | null = null
  /** When its last request ended, in milliseconds. */
  usedAtMs = 0
  /** The rejection for its remaining requests; `null` unless it ended before them. */
  failure: [why: RejectionReason, error: () => InferenceError] | null = null
  /** Resolves when the sequence is removed; `null` unless a caller waits for that. */
  whenRemoved: Promise<void> | null = null
  onRemoved: () => void = noop

  constructor(id: SequenceId, key: string, correlation: Sequence['correlation'], state: StateTensors) {
    this.id = id
    this.key = key
    this.correlation = correlation
    this.state = state
  }

  /** Whether it has no request. */
  get idle(): boolean {
    return this.current === null && this.waiting.size === 0
  }

  /** Restarts the sequence. */
  restart(): void {
    this.answered = this.sent = this.predecessorEnded = false
    this.state.reset()
  }

  /**
   * Passes the sequence to a new owner that restarts it. Returns a function that notifies those who wait for
   * the end of the old one.
   */
  passTo(owner: object | null): () => void {
    const told = this.onRemoved
    if (this.whenRemoved !== null) this.predecessorEnded = true
    this.owner = owner
    this.whenRemoved = null
    this.onRemoved = noop
    return told
  }

  /** Fills a request's control inputs and state; returns whether that changes its dims. */
  fill(request: InferRequest, isEnd: boolean, { controls, stateInputs }: SequenceInputs): boolean {
    const data = request.data as (typeof request.data)[number][]
    for (const { index, kind, no, yes } of controls) {
      if (kind === 'correlationId') data[index] = this.correlation
      else data[index] = kind === 'ready' || (kind === 'end' ? isEnd : !this.answered) ? yes : no
    }
    const dims = request.dims as (readonly number[])[] | null
    let changed = false
    for (const [state, tensor] of this.state.current.entries()) {
      const index = stateInputs[state]!
      data[index] = tensor.data
      if (dims === null || dims[index]!.every((dim, axis) => dim === tensor.dims[axis])) continue
      dims[index] = tensor.dims
      changed = true
    }
    return changed
  }
}

/** One request of a sequence. */
export class Turn implements SequenceTurn {
  readonly sequence: Sequence
  readonly request: InferRequest
  /** Whether it starts the sequence; also true for the request after a start that was cancelled. */
  isStart: boolean
  readonly isEnd: boolean
  /** Its bucket before its sequence had a place. */
  readonly shapeKey: string
  slot = -1
  /** Called when its turn comes, or will never come. */
  onTurn: () => void = noop
  readonly #owner: Sequences
  /** The outputs that its caller asked for; `null` for all except states. */
  readonly #shown: readonly number[] | null

  constructor(
    owner: Sequences,
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

/** Where a sequence is among the active ones. */
interface Place {
  /** Its batch, and its slot there: -1 for any. */
  readonly group: number
  readonly slot: number
}

const anywhere: Place = { group: -1, slot: -1 }

/** The places for active sequences. */
export interface Places {
  /** A place for a sequence; `null` if there is none. */
  give(): Place | null
  free(place: Place): void
  /** Rows of a batch with this place: up to the last taken slot. */
  slots(place: Place): number
}

/** A number of candidates whose requests are batched as they arrive; Triton's `oldest` strategy. */
export class Candidates implements Places {
  readonly #most: () => number
  #taken = 0

  constructor(most: () => number) {
    this.#most = most
  }

  give(): Place | null {
    if (this.#taken >= this.#most()) return null
    this.#taken++
    return anywhere
  }

  free(): void {
    this.#taken--
  }

  slots(): number {
    return 0
  }
}

/**
 * One batch per instance, whose slots belong to sequences; Triton's `direct` strategy. The lowest slot of any
 * batch is given first.
 */
export class BatchSlots implements Places {
  readonly #slotsOfBatch: number
  readonly #batches: () => number
  readonly #taken: boolean[][] = []

  constructor(slotsOfBatch: number, batches: () => number) {
    this.#slotsOfBatch = slotsOfBatch
    this.#batches = batches
  }

  give(): Place | null {
    const batches = Math.max(1, this.#batches())
    for (let slot = 0; slot < this.#slotsOfBatch; slot++) {
      for (let group = 0; group < batches; group++) {
        const taken = (this.#taken[group] ??= [])
        if (taken[slot] === true) continue
        taken[slot] = true
        return { group, slot }
      }
    }
    return null
  }

  free({ group, slot }: Place): void {
    const taken = this.#taken[group]!
    taken[slot] = false
    while (taken.length > 0 && taken.at(-1) !== true) taken.pop()
  }

  slots({ group }: Place): number {
    return this.#taken[group]!.length
  }
}
