import type { SequenceId } from '../../options/infer-options.ts'
import type { InferenceError } from '../../errors.ts'
import type { RejectionReason } from '../../observe/rejections.ts'
import type { InferRequest } from '../../request/infer-request.ts'
import type { TensorData } from '../../tensor/tensor.ts'
import type { Place } from './places.ts'
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
