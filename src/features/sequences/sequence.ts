import type { SequenceId } from '../../options/infer-options.ts'
import type { InferenceError } from '../../errors.ts'
import type { RejectionReason } from '../../observe/rejections.ts'
import type { InferRequest, SequenceTurn } from '../../request/infer-request.ts'
import type { TensorData } from '../../tensor/tensor.ts'
import type { SequenceInputs } from './sequence-inputs.ts'
import type { StateTensors } from './state-tensors.ts'

const nobody = () => {}

/** One sequence: its requests in the order of their calls, of which one at a time is on its way. */
export class Sequence {
  readonly id: SequenceId
  /** The same as text, different for ids of different kinds. */
  readonly key: string
  /** As the model is told; `null` where it is not. */
  readonly correlation: TensorData | readonly string[] | null
  readonly state: StateTensors
  /** Where it is among those that are under way; `null` while it waits for that, and once it has ended. */
  place: Place | null = null
  /** On its way; `null` while none is. */
  current: InferRequest | null = null
  /** Behind that. */
  readonly waiting = new Set<InferRequest>()
  /** Whether a request of it has been answered since it began. */
  begun = false
  /** Whether a request of it was sent on its way since it began. */
  started = false
  /** Whether the last request of what began under its id, before another begins it anew, has come to its end. */
  lastEnded = false
  /** Whether nothing is left of it. */
  gone = false
  /** Whether the next request that is called for begins it anew, as one that was to do so was withdrawn. */
  restartNext = false
  /** Whether its last request has been called for: the next has to begin it anew. */
  closed = false
  /** The stream that has begun it; `null` where requests say themselves of which sequence they are. */
  owner: object | null = null
  /** When its last request came to its end, in milliseconds. */
  usedAtMs = 0
  /** What becomes of its requests; `null` unless it has ended before them. */
  ended: [why: RejectionReason, error: () => InferenceError] | null = null
  /** Resolves when nothing is left of it; `null` unless somebody waits for that. */
  finished: Promise<void> | null = null
  onFinished: () => void = nobody

  constructor(id: SequenceId, key: string, correlation: Sequence['correlation'], state: StateTensors) {
    this.id = id
    this.key = key
    this.correlation = correlation
    this.state = state
  }

  /** Whether it has nothing to do. */
  get idle(): boolean {
    return this.current === null && this.waiting.size === 0
  }

  /** Begins anew. */
  restart(): void {
    this.begun = this.started = this.lastEnded = false
    this.state.reset()
  }

  /** Another begins it anew: gives what tells those who wait for its end, once it is over for them. */
  passTo(owner: object | null): () => void {
    const told = this.onFinished
    if (this.finished !== null) this.lastEnded = true
    this.owner = owner
    this.finished = null
    this.onFinished = nobody
    return told
  }

  /** Gives a request its control inputs and the state; tells whether its dims are others by that. */
  fill(request: InferRequest, isEnd: boolean, { controls, stateInputs }: SequenceInputs): boolean {
    const data = request.data as (typeof request.data)[number][]
    for (const { index, kind, no, yes } of controls) {
      if (kind === 'correlationId') data[index] = this.correlation
      else data[index] = kind === 'ready' || (kind === 'end' ? isEnd : !this.begun) ? yes : no
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

/** Where a sequence is among those that are under way. */
interface Place {
  /** Which batch it belongs to, and where in that: -1 for none in particular. */
  readonly group: number
  readonly slot: number
}

const anywhere: Place = { group: -1, slot: -1 }

/** How many sequences are under way at once. */
export interface Places {
  /** A place for a sequence; `null` while there is none. */
  give(): Place | null
  free(place: Place): void
  /** Rows of a batch with this place: up to the last that is taken. */
  slots(place: Place): number
}

/** So many candidates, whose requests join as they come; Triton's `oldest`. */
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

/** For each instance a batch whose slots belong to sequences; Triton's `direct`. The lowest slot goes first, whichever batch it is of. */
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
