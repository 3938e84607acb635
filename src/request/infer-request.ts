import type { LeasedRows } from '../native/row-blocks.ts'
import type { RequestObservation } from '../observe/request-observer.ts'
import type { LevelOptions, LevelPolicy } from '../options/batching.ts'
import type { AnswerOptions, ReportedOutputs } from '../options/infer-options.ts'
import type { AnyOutputs } from '../options/model-signature.ts'
import type { TensorData, TensorLike } from '../tensor/tensor.ts'
import type { MailedValue } from '../tensor/values.ts'
import { unwatch, watch } from '../base/abort-watch.ts'
import {
  rejectCaller,
  BothFollowers,
  type Preparation,
  type RequestFollower,
  type RunAccount,
  type SequenceTurn,
} from './participants.ts'

/**
 * Why a request left the queue without reaching a batch: its timeout ran out, its deadline can no longer be met, its
 * caller withdrew it, or the queue was closed.
 */
export type QueueExit = 'timeout' | 'deadline' | 'cancelled' | 'closed'

/** When the queue must look at a request again, whatever else happens; `Infinity` for never. */
export function expiresAtMs(request: Pick<InferRequest, 'timeoutAtMs' | 'deadlineAtMs'>): number {
  return Math.min(request.timeoutAtMs ?? Infinity, request.deadlineAtMs ?? Infinity)
}

/** Checked inputs of one request, in the order of the model's inputs. */
export interface ParsedFeeds {
  readonly rows: number
  /** Requests with equal keys may share a run. */
  readonly bucketKey: string
  /** Whether it runs alone as it is, whatever its first dimensions: they count no rows, and it counts as one. */
  readonly whole: boolean
  /** For some rows of a request that was split: each output has to have one entry for each of them. */
  readonly isPart?: true
  /** `null` for an optional input that was left out. */
  readonly data: readonly (TensorData | readonly string[] | MailedValue | null)[]
  /** Dims of each input; `null` when the model fixes everything but the rows. */
  readonly dims: readonly (readonly number[])[] | null
  /** The rows of a lease, over which `data` is; left out where there is none. */
  readonly leased?: LeasedRows
  /** Makes some of the data once the request has its place in the queue; left out where all are there. */
  readonly preparation?: Preparation
}

/** Inputs by name that something else than the request gives. */
export type Filled = Readonly<Record<string, TensorLike>>

/** The mask that wants every output. */
const allOutputs = -1

/** What `infer()` resolves with: the outputs, or with `report: true` both. */
export type Answer = AnyOutputs | ReportedOutputs<AnyOutputs>

/**
 * One `infer()` on its way through the engine. It settles exactly once. It knows its place in the queue, so that leaving that costs no
 * search and no allocation. A field that few requests have is read from the prototype until it is set, so most requests take half the
 * memory and half the time to make. It has no base class, whose constructor V8 would call each time.
 */
export class InferRequest {
  /** Rows this request adds to a batch: 1 or more (0 only for requests that ask for an empty run). */
  readonly rows: number
  /** Requests batch together only when their keys are equal; '' when all shapes are fixed. */
  bucketKey: string
  readonly level: PriorityLevel
  /** Where it waits; `null` before and after. */
  line: { readonly owner: any } | null = null
  /** Its place there; kept by the line. */
  position = 0
  /** Whether it is part of a batch that was handed to a busy instance: it waits still, in no line. */
  ahead = false
  /** How many requests had come to its queue before it. */
  came = 0
  enqueuedAtMs = 0
  readonly data: ParsedFeeds['data']
  readonly dims: ParsedFeeds['dims']
  readonly whole: boolean
  /** Which answer is wanted. */
  readonly wanted: AnswerOptions
  settled = false
  /** Whether it settles the promise of a call to `infer()`, whose caller is to be seen in the stack of a time-out. */
  isCall = false
  /** Runs it took part in. */
  attempts = 0
  readonly #resolve: (answer: Answer) => void
  readonly #reject: (reason: unknown) => void

  // On the prototype:

  /** When its answer is of no use any more; `null` for never. */
  declare deadlineAtMs: number | null
  /** When the request gives up waiting; `null` for never. */
  declare timeoutAtMs: number | null
  /** Notified of its end: its turn, its observation, or both; `null` for none. */
  declare follower: RequestFollower | null
  /** Notified of its runs; `null` unless the request is observed. */
  declare observation: RequestObservation | null
  /** Where it is watched for its expiry, beside others (with holes where some have left); `null` when it is not. */
  declare expirySlot: { entries: (InferRequest | null)[]; live: number } | null
  /** Its place in {@link expirySlot}. */
  declare expiryIndex: number
  /** Whether its timeout ran out under the action `DELAY`: it waits behind all others of its level. */
  declare delayed: boolean
  /** Whether it may not be sent yet, as another has to go before or it is not {@link unready ready}: it waits still, in no line. */
  declare held: boolean
  /** Whether some of its inputs are still being made, as encoded images are. */
  declare unready: boolean
  /** When its inputs were there; `null` for as soon as it came. */
  declare readyAtMs: number | null
  /** What all of its rows cost, and how many requests had come before it, which the queue keeps; `null` where nothing is said of costs. */
  declare cost: { readonly units: number; order: number } | null
  /** As of {@link ParsedFeeds}. */
  declare isPart: boolean
  /** The rows of a lease that it was made of, or that its images were decoded into; else `null`. */
  declare leased: LeasedRows | null
  /** What makes inputs of it that are not there yet; `null` where all are. */
  declare preparation: Preparation | null
  /** `null` for a request that belongs to no sequence. */
  declare turn: SequenceTurn | null
  /** `null` for a request that is counted by itself. */
  declare account: RunAccount | null
  /** Whether its answer goes to another model: tensors are given as type, dims and data, and no `Tensor` is made of them. */
  declare isStep: boolean
  /** Longest time of a run that it is part of, in milliseconds; 0 when it says nothing of that. */
  declare maxRunMs: number
  /** Whether a worker died under it. */
  declare crashed: boolean
  /** What stops listening to its signal; `null` for one without. */
  declare unlisten: (() => void) | null

  constructor(
    feeds: ParsedFeeds,
    level: PriorityLevel,
    wanted: AnswerOptions,
    resolve: (answer: Answer) => void,
    reject: (reason: unknown) => void,
  ) {
    this.rows = feeds.rows
    this.bucketKey = feeds.bucketKey
    this.level = level
    this.data = feeds.data
    this.dims = feeds.dims
    this.whole = feeds.whole
    this.wanted = wanted
    this.#resolve = resolve
    this.#reject = reject
    const { isPart, leased, preparation } = feeds
    if (isPart !== undefined) this.isPart = isPart
    if (leased !== undefined) this.leased = leased
    if (preparation !== undefined) this.preparation = preparation
  }

  static {
    Object.assign(InferRequest.prototype, {
      deadlineAtMs: null,
      timeoutAtMs: null,
      follower: null,
      observation: null,
      expirySlot: null,
      expiryIndex: 0,
      delayed: false,
      held: false,
      unready: false,
      readyAtMs: null,
      cost: null,
      isPart: false,
      leased: null,
      preparation: null,
      turn: null,
      account: null,
      isStep: false,
      maxRunMs: 0,
      crashed: false,
      unlisten: null,
    } satisfies Partial<InferRequest>)
  }

  /** Indices of the outputs wanted; `null` for all. */
  get outputs(): readonly number[] | null {
    return this.wanted.outputs
  }

  /** The same as bits, for the union over a batch; without those past the 31st. */
  get outputMask(): number {
    const { outputs } = this.wanted
    if (outputs === null) return allOutputs
    return outputs.reduce((mask, index) => (index > 30 ? mask : mask | (1 << index)), 0)
  }

  get requestId(): string | undefined {
    return this.wanted.requestId
  }

  /** Where an output is to be written for the model that it goes to; `null` for memory of its own. */
  placeFor(_output: number): TensorData | null {
    return null
  }

  /** Calls `onAbort` when the signal fires before the request settles. */
  listen(signal: AbortSignal, onAbort: () => void): void {
    watch(signal, onAbort)
    this.unlisten = () => unwatch(signal, onAbort)
  }

  /** Has an observation notified of its runs and its end. */
  observe(observation: RequestObservation): void {
    const { follower } = this
    this.observation = observation
    this.follower = follower === null ? observation : new BothFollowers(follower, observation)
  }

  /** True when this call settled the request; false when it was settled before. */
  succeed(answer: Answer): boolean {
    if (!this.#settle()) return false
    if (this.follower !== null) this.follower.ended(true, undefined, answer)
    this.#resolve(answer)
    return true
  }

  /**
   * As {@link succeed}, with a rejection.
   *
   * @param isWithdrawn whether the reason is its caller's, and says nothing of what came of it.
   */
  fail(reason: unknown, isWithdrawn = false): boolean {
    if (!this.#settle()) return false
    if (this.follower !== null) this.follower.ended(false, isWithdrawn ? undefined : reason, null)
    if (this.isCall) rejectCaller(reason, this.#resolve, this.#reject)
    else this.#reject(reason)
    return true
  }

  #settle(): boolean {
    if (this.settled) return false
    this.settled = true
    if (this.unlisten !== null) this.unlisten()
    if (this.leased !== null) this.leased.settled()
    if (this.preparation !== null) this.preparation.cancel()
    return true
  }
}

/** One priority level of a queue. */
export class PriorityLevel {
  /** 1 is served first. */
  readonly level: number
  readonly policy: LevelPolicy
  /** Requests waiting at this level, whatever their shape, and those whose answers are held back for their order. */
  waiting = 0
  /** Rows of those that are in no batch, and could be. */
  rows = 0
  /** Rows of those whose inputs are still being made. */
  unreadyRows = 0

  constructor(level: number, policy: LevelPolicy) {
    this.level = level
    // A copy: what a schema has made is a hash table to V8, and would be looked up for each request.
    const { maxQueueSize, defaultTimeoutMs, allowTimeoutOverride, timeoutAction } = policy
    this.policy = { maxQueueSize, defaultTimeoutMs, allowTimeoutOverride, timeoutAction }
  }

  /** Requests that would be accepted now; `Infinity` without a `maxQueueSize`. */
  get room(): number {
    const { maxQueueSize } = this.policy
    return maxQueueSize === 0 ? Infinity : Math.max(0, maxQueueSize - this.waiting)
  }

  /** True when one more request would exceed `maxQueueSize`. */
  get full(): boolean {
    return this.room === 0
  }

  /**
   * How long a request may wait that asks for `timeoutMs`, in milliseconds; 0 for as long as it takes. As in Triton a
   * request can only shorten a default, and only where the policy allows it; unlike Triton its own timeout also counts
   * where there is no default.
   */
  timeoutFor(timeoutMs: number | undefined): number {
    const { defaultTimeoutMs, allowTimeoutOverride } = this.policy
    if (timeoutMs === undefined) return defaultTimeoutMs
    if (defaultTimeoutMs === 0) return timeoutMs
    return allowTimeoutOverride ? Math.min(timeoutMs, defaultTimeoutMs) : defaultTimeoutMs
  }
}

/** Levels that are kept although no request waits there. Callers may use any number, and huge ones. */
const maxKeptLevels = 1024

/** The levels of one queue. */
export class PriorityLevels {
  readonly #options: LevelOptions
  readonly #levels = new Map<number, PriorityLevel>()
  readonly #default: PriorityLevel

  constructor(options: LevelOptions) {
    this.#options = options
    this.#default = this.#make(options.priorityLevels === 0 ? 0 : options.defaultPriorityLevel)
    this.#levels.set(this.#default.level, this.#default)
  }

  /** How many there are; 0 when all requests are equal. */
  get count(): number {
    return this.#options.priorityLevels
  }

  /** The level of a request; as in Triton 0 and what is above the number of levels mean the default one. */
  of(priority: number | undefined): PriorityLevel {
    if (priority === undefined || priority === 0 || priority > this.#options.priorityLevels)
      return this.#default
    let level = this.#levels.get(priority)
    if (level !== undefined) return level
    if (this.#levels.size >= maxKeptLevels) this.#forgetUnused()
    this.#levels.set(priority, (level = this.#make(priority)))
    return level
  }

  /**
   * Rows that are served before those that come now to `level`.
   *
   * @param unready whether what comes has to be made ready as well, behind those that are not yet; what is ready waits for none of them.
   */
  rowsAhead(level: PriorityLevel, unready = false): number {
    let rows = 0
    for (const other of this.#levels.values())
      if (other.level <= level.level) rows += unready ? other.rows + other.unreadyRows : other.rows
    return rows
  }

  #forgetUnused(): void {
    for (const [number, level] of this.#levels) {
      if (level.waiting === 0 && level !== this.#default) this.#levels.delete(number)
    }
  }

  #make(level: number): PriorityLevel {
    return new PriorityLevel(level, this.#options.policies.get(level) ?? this.#options.defaultPolicy)
  }
}
