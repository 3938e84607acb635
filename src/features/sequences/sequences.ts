import type { CheckedOptions, SequenceId, SequenceOptions } from '../../options/infer-options.ts'
import { InferenceError, invalidArgument } from '../../errors.ts'
import type { SequenceEvent } from '../../observe/engine-events.ts'
import { InferRequest, type Answer } from '../../request/infer-request.ts'
import { EmptyRows, type SequenceInputs } from './sequence-inputs.ts'
import { Sequence, Turn, BatchSlots, Candidates, type Places } from './sequence.ts'
import { StateTensors, StateMemory } from './state-tensors.ts'
import { type Clock, Alarm } from '../../base/clock.ts'
import type { ResolvedSequence } from '../../options/sequence-config.ts'
import type { StagingBuffer } from '../../native/staging-pool.ts'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import type { FeedParser } from '../../request/feeds.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import { randomUUID } from 'node:crypto'

const endedWithModel = 'ended with its model'

/**
 * The sequences of one model, by the rules of Triton's sequence batcher. Requests of one sequence run one
 * after the other, in order of their calls. Each gets its control inputs, and the state that the one before
 * produced. Waiting requests are held in the model's queue, where limits and aborts apply as to any request.
 */
export class Sequences {
  readonly #model: SequencedModel
  readonly #metadata: ModelMetadata
  readonly #places: Places
  readonly #memory: StateMemory
  readonly #errors: SequenceErrors
  readonly #empty: EmptyRows
  readonly #idle: IdleSequences
  /** Sequences that have not ended, including those whose last request has been called. */
  readonly #open = new Map<string, Sequence>()
  /** Sequences without a place, in order of arrival. */
  readonly #backlog = new Set<Sequence>()
  /** Sequences of which a request has just ended. */
  readonly #touched = new Set<Sequence>()
  readonly #stateOf: readonly number[]
  #draining = false
  /** The last id that was generated. */
  #lastId = madeFrom

  constructor(model: SequencedModel) {
    const { inputs, config, scheduler } = model
    const { metadata, instances, clock } = scheduler
    const batches = () => Math.max(1, instances.size)
    const perInstance = config.oldest?.maxCandidateSequences ?? Infinity
    this.#model = model
    this.#metadata = metadata
    this.#places =
      config.direct === undefined
        ? new Candidates(() => perInstance * batches())
        : new BatchSlots(Math.max(1, metadata.maxBatchSize), batches)
    this.#memory = new StateMemory((byteLength) => model.staging().acquire(byteLength, null))
    instances.onAdded = () => this.fill() // there are more places
    this.#errors = new SequenceErrors(metadata.name)
    this.#empty = new EmptyRows(metadata, inputs)
    this.#idle = new IdleSequences(
      clock,
      config.maxSequenceIdleMs,
      (sequence) => this.#finish(sequence, 'idle', `had no request for ${config.maxSequenceIdleMs} ms`),
      () => this.fill(),
    )
    this.#stateOf = metadata.outputs.map((_, index) => inputs.stateOutputs.indexOf(index))
  }

  /** Number of sequences that are active, wait for a place, or may continue. */
  get size(): number {
    return this.#open.size
  }

  /**
   * Runs a request of a sequence when its turn comes.
   *
   * @param owner the stream of the request, if any: its requests do not join a sequence that another owner
   * has begun since. `null` for none.
   * @throws InferenceError `ERR_SEQUENCE_ENDED` for a request that does not start a sequence and belongs to
   * none; `ERR_INVALID_ARG`.
   */
  infer(
    feeds: unknown,
    checked: CheckedOptions,
    { id, start, end }: SequenceOptions,
    owner: object | null = null,
  ): Promise<Answer> {
    const { parser, inputs, scheduler } = this.#model
    this.#idle.expire()
    const parsed = parser.parse(feeds, false, inputs.filled)
    const key = keyOf(id)
    const known = this.#open.get(key)
    if ((known === undefined || known.lastCalled) && !start)
      throw this.#errors.unknown(key, { id, start, end }, this.#model.config.maxSequenceIdleMs)
    if (known !== undefined && owner !== null && known.owner !== owner && !start)
      throw this.#errors.ended(id, 'was restarted by another request with its id', undefined)
    const sequence = known ?? this.#begin(id, key)
    sequence.lastCalled = end // otherwise a start queues behind the rest of the sequence before it
    return new Promise((resolve, reject) => {
      const outputs =
        checked.outputs === null ? null : [...new Set([...checked.outputs, ...inputs.stateOutputs])]
      const request = new InferRequest(
        parsed,
        scheduler.levels.of(checked.priority),
        { ...checked, outputs },
        resolve,
        reject,
      )
      request.isCall = true
      const turn = new Turn(this, sequence, request, start, end, checked.outputs)
      request.turn = request.follower = turn
      if (start) turn.onTurn = sequence.passTo(owner)
      this.#add(sequence, turn)
      if (scheduler.observed.by.observer !== null)
        scheduler.observed.begun(request, checked, this.#model.scheduler.clock.nowMs())
      scheduler.submit(request, checked)
    })
  }

  /** @throws InferenceError `ERR_INVALID_ARG` for an id that does not fit the model's input. */
  checkId(id: SequenceId): void {
    this.#model.inputs.correlation(id)
  }

  /** An id without an open sequence, of the model's type. */
  generateId(): SequenceId {
    if (this.#model.inputs.correlationType === 'string') return randomUUID()
    do this.#lastId = this.#lastId === largestNumber ? madeFrom : this.#lastId + 1
    while (this.#open.has(keyOf(this.#lastId)))
    return this.#lastId
  }

  /**
   * Ends a stream's sequence after its pending requests, if it still owns the sequence. Resolves when the
   * sequence has ended.
   */
  end(id: SequenceId, owner: object): Promise<void> {
    const sequence = this.#open.get(keyOf(id))
    if (sequence?.owner !== owner) return Promise.resolve()
    sequence.lastCalled = true
    this.#touch(sequence)
    return (sequence.whenRemoved ??= new Promise((resolve) => (sequence.onRemoved = resolve)))
  }

  /** No more requests will come: sequences end after their pending ones. */
  drain(): void {
    this.#draining = true
    for (const sequence of this.#open.values()) this.#touch(sequence)
  }

  /** Removes all sequences. No request may be in flight. */
  close(): void {
    this.#draining = true
    for (const sequence of [...this.#open.values(), ...this.#backlog])
      this.#finish(sequence, 'evicted', endedWithModel)
    this.#idle.close()
  }

  // ── for its turns ──
  stateOf(output: number): number {
    return this.#stateOf[output]!
  }

  checkState(state: number, dims: readonly number[]): void {
    const { inputs } = this.#model
    const metadata = this.#metadata
    const { name, shape } = metadata.inputs[inputs.stateInputs[state]!]!
    if (
      dims.length === shape.length &&
      shape.every((dim, axis) => typeof dim === 'string' || dim === dims[axis])
    )
      return
    const output = metadata.outputs[inputs.stateOutputs[state]!]!.name
    throw new Error(
      `output '${output}' has dims [${dims.join(', ')}], where the next request of the sequence takes [${shape.join(', ')}] as '${name}'`,
    )
  }

  slotsWith({ place }: Sequence): number {
    return place === null ? 0 : this.#places.slots(place)
  }

  emptyRowLike(request: InferRequest): InferRequest {
    return this.#empty.like(request)
  }

  ended({ sequence, request, isStart, isEnd, onTurn }: Turn, succeeded: boolean, reason: unknown): void {
    onTurn()
    if (isStart && sequence.waiting.has(request)) passStartOn(sequence, request)
    sequence.waiting.delete(request)
    if (isEnd) sequence.predecessorEnded = true
    if (sequence.current === request) {
      sequence.current = null
      if (succeeded) {
        sequence.state.commit()
        sequence.answered = true
      }
    }
    if (!succeeded && reason instanceof InferenceError) this.#noteFailure(sequence, reason)
    this.#touch(sequence)
  }

  /** What a failure means for the rest of its sequence. */
  #noteFailure(sequence: Sequence, reason: InferenceError): void {
    if (sequence.failure !== null) return
    const { code } = reason
    if (code === 'ERR_TIMEOUT' && sequence.place === null)
      sequence.failure = ['timeout', () => this.#errors.expired(sequence.id, reason)]
    // A crash loses state inside the model. State that we keep survives.
    else if (code === 'ERR_INSTANCE_CRASHED' && this.#model.inputs.stateInputs.length === 0) {
      sequence.failure = [
        'sequenceEnded',
        () => this.#errors.ended(sequence.id, 'ended with the worker that ran one of its requests', reason),
      ]
      this.#errors.remember(sequence.key, 'ended with the worker that ran one of its requests')
    } else return
    this.#open.delete(sequence.key) // a restart does not need the rest
  }

  #begin(id: SequenceId, key: string): Sequence {
    const { inputs } = this.#model
    const sequence = new Sequence(
      id,
      key,
      inputs.correlation(id),
      new StateTensors(inputs.stateTypes, inputs.initial, this.#memory),
    )
    this.#open.set(key, sequence)
    this.#errors.forget(key)
    if (this.#backlog.size === 0) sequence.place = this.#places.give()
    if (sequence.place === null) this.#backlog.add(sequence)
    return sequence
  }

  #add(sequence: Sequence, turn: Turn): void {
    this.#idle.delete(sequence)
    if (sequence.restartNext) turn.isStart = true
    sequence.restartNext = false
    if (sequence.place !== null && sequence.idle) this.#prepare(sequence, turn)
    else {
      turn.request.held = true
      sequence.waiting.add(turn.request)
    }
  }

  /** Fills a request whose turn has come. */
  #prepare(sequence: Sequence, turn: Turn): void {
    const { request } = turn
    sequence.current = request
    sequence.waiting.delete(request)
    turn.onTurn()
    if (turn.isStart) this.#restart(sequence)
    sequence.sent = true
    const changed = sequence.fill(request, turn.isEnd, this.#model.inputs)
    const key = changed ? this.#model.parser.keyOf(request) : turn.shapeKey
    const { group, slot } = sequence.place!
    const hasSlot = slot >= 0 && !request.whole
    turn.slot = hasSlot ? slot : -1
    request.bucketKey = hasSlot ? `${group}#${key}` : key
  }

  /** Starts another sequence under the id, and ends the old one if it had run. */
  #restart(sequence: Sequence): void {
    const { id, sent, predecessorEnded } = sequence
    if (sent)
      this.#model.over(
        predecessorEnded
          ? { type: 'ended', sequenceId: id }
          : { type: 'evicted', sequenceId: id, reason: 'was restarted' },
      )
    sequence.restart()
  }

  #touch(sequence: Sequence): void {
    // Later, as the answers of the batch are being delivered.
    if (this.#touched.size === 0) queueMicrotask(this.#advanceAll)
    this.#touched.add(sequence)
  }

  readonly #advanceAll = (): void => {
    const touched = [...this.#touched]
    this.#touched.clear()
    for (const sequence of touched) this.#advance(sequence)
    this.fill()
  }

  /** Sends the next request of a sequence, or removes the sequence. */
  #advance(sequence: Sequence): void {
    if (sequence.failure !== null) {
      const [why, error] = sequence.failure // one per caller, each with its own stack
      for (const request of sequence.waiting) this.#model.scheduler.cancel(request, why, error())
    }
    const [next] = sequence.waiting
    if (next !== undefined) {
      if (sequence.place === null || sequence.current !== null) return
      this.#prepare(sequence, next.turn as Turn)
      return this.#model.scheduler.release(next)
    }
    if (sequence.current !== null) return
    if (sequence.failure !== null) this.#finish(sequence, 'evicted', sequence.failure[1]().message)
    else if (sequence.lastCalled) this.#finish(sequence, 'ended')
    else if (this.#draining) this.#finish(sequence, 'evicted', endedWithModel)
    else if (sequence.place !== null || this.#backlog.has(sequence)) this.#idle.add(sequence)
  }

  /** Gives places to the sequences that wait for one. */
  fill(): void {
    for (const sequence of this.#backlog) {
      const place = this.#places.give()
      if (place === null) return
      this.#backlog.delete(sequence)
      sequence.place = place
      this.#advance(sequence)
    }
  }

  #finish(sequence: Sequence, type: SequenceEvent['type'], reason?: string): void {
    if (sequence.removed) return
    sequence.removed = true
    if (reason !== undefined && sequence.failure === null) this.#errors.remember(sequence.key, reason)
    if (this.#open.get(sequence.key) === sequence) this.#open.delete(sequence.key)
    this.#backlog.delete(sequence)
    this.#idle.delete(sequence)
    if (sequence.place !== null) this.#places.free(sequence.place)
    sequence.place = null
    sequence.state.release()
    sequence.onRemoved()
    this.#model.over({ type, sequenceId: sequence.id, ...(reason !== undefined && { reason }) })
  }
}

/**
 * A start was cancelled before its turn. The next request becomes the start, as it must not see the state
 * from before.
 */
function passStartOn(sequence: Sequence, request: InferRequest): void {
  const waiting = [...sequence.waiting]
  const next = waiting[waiting.indexOf(request) + 1]
  if (next === undefined) sequence.restartNext = true
  else (next.turn as Turn).isStart = true
}

/** A model with sequences. */
interface SequencedModel {
  readonly config: ResolvedSequence
  readonly inputs: SequenceInputs
  readonly parser: FeedParser
  readonly scheduler: Scheduler
  /** The memory for states. */
  staging(): { acquire(byteLength: number, device: null): StagingBuffer }
  /** Called for each sequence when it is removed. */
  over(event: Pick<SequenceEvent, 'type' | 'sequenceId' | 'reason'>): void
}

const largestNumber = 2 ** 31 - 1
/** Callers rarely choose ids this large, so a generated id rarely restarts a caller's sequence. */
const madeFrom = 2 ** 30

/** An id as text; ids of different types have different texts. */
function keyOf(id: SequenceId): string {
  return typeof id === 'string' ? `'${id}` : String(id)
}

const longestTimerMs = 2 ** 31 - 1

/** Idle sequences, which expire after a time. */
class IdleSequences {
  readonly #clock: Clock
  readonly #maxMs: number
  readonly #onExpired: (sequence: Sequence) => void
  readonly #afterwards: () => void
  readonly #alarm: Alarm
  /** The longest idle first. */
  readonly #all = new Set<Sequence>()

  /** @param afterwards called after some have expired. */
  constructor(clock: Clock, maxMs: number, onExpired: (sequence: Sequence) => void, afterwards: () => void) {
    this.#clock = clock
    this.#maxMs = maxMs
    this.#onExpired = onExpired
    this.#afterwards = afterwards
    this.#alarm = new Alarm(clock, () => this.expire())
  }

  add(sequence: Sequence): void {
    sequence.usedAtMs = this.#clock.nowMs()
    this.#all.add(sequence)
    this.#ringFor(sequence)
  }

  delete(sequence: Sequence): void {
    this.#all.delete(sequence)
  }

  /** Ends the sequences that have expired. */
  expire(): void {
    const nowMs = this.#clock.nowMs()
    let any = false
    for (const sequence of this.#all) {
      const atMs = sequence.usedAtMs + this.#maxMs
      if (atMs > nowMs) {
        this.#ringFor(sequence)
        break
      }
      this.#all.delete(sequence)
      this.#onExpired(sequence)
      any = true
    }
    if (any) this.#afterwards()
  }

  /** Sets the timer, in several steps if the time exceeds the longest timer. */
  #ringFor({ usedAtMs }: Sequence): void {
    this.#alarm.set(Math.min(usedAtMs + this.#maxMs, this.#clock.nowMs() + longestTimerMs))
  }

  close(): void {
    this.#all.clear()
    this.#alarm.clear()
  }
}

/** How many ended sequences are remembered, with the reason. */
const mostRemembered = 1000

/** Errors of one model's sequences. They say why a sequence has ended, if that is known. */
class SequenceErrors {
  readonly #model: string
  readonly #reasons = new Map<string, string>()

  constructor(model: string) {
    this.#model = model
  }

  /** Remembers why a sequence ended. */
  remember(key: string, reason: string): void {
    this.#reasons.delete(key)
    this.#reasons.set(key, reason)
    if (this.#reasons.size > mostRemembered) this.#reasons.delete(this.#reasons.keys().next().value!)
  }

  /** A new sequence begins under the id. */
  forget(key: string): void {
    this.#reasons.delete(key)
  }

  /** The error of a request that does not start a sequence and belongs to none. */
  unknown(key: string, { id }: SequenceOptions, maxIdleMs: number): InferenceError {
    const reason =
      this.#reasons.get(key) ??
      `has not begun, has ended, had no request for ${maxIdleMs} ms, or began on a model that has since been replaced`
    const hint = `Sequence ${String(id)} ${reason}`
    return invalidArgument('options.sequenceStart', 'true for the first request of a sequence', false, {
      code: 'ERR_SEQUENCE_ENDED',
      model: this.#model,
      hint,
    })
  }

  /** The error of a request whose sequence ended with the request before it. */
  ended(id: SequenceOptions['id'], reason: string, cause: unknown): InferenceError {
    const message = `Sequence ${String(id)} of model '${this.#model}' ${reason}; begin it again.`
    return new InferenceError('ERR_SEQUENCE_ENDED', message, { model: this.#model, cause })
  }

  /** The error of a request whose sequence waited too long for a place. */
  expired(id: SequenceOptions['id'], cause: unknown): InferenceError {
    const message = `Sequence ${String(id)} of model '${this.#model}' waited for a free place longer than its requests may wait; begin it again.`
    return new InferenceError('ERR_TIMEOUT', message, { model: this.#model, cause })
  }
}
