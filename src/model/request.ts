import { QueueEntry } from '../batching/entry.ts'
import type { QueueLevel } from '../batching/queue-level.ts'
import type { TensorData } from '../tensor.ts'
import { unwatch, watch } from './abort-watch.ts'
import type { BatchReport, Outputs } from './config.ts'

/** Checked inputs of one request, in the order of the model's inputs. */
export interface ParsedFeeds {
  readonly rows: number
  /** Requests with equal keys may share a run. */
  readonly bucketKey: string
  /** `null` for an optional input that was left out. */
  readonly data: readonly (TensorData | readonly string[] | null)[]
  /** Dims of each input; `null` when the model fixes everything but the rows. */
  readonly dims: readonly (readonly number[])[] | null
}

/** The mask that wants every output. */
const allOutputs = -1

function outputMask(outputs: readonly number[]): number {
  return outputs.reduce((mask, index) => (index > 30 ? mask : mask | (1 << index)), 0)
}

/** What `infer()` resolves with: the outputs, or with `report: true` both. */
export type Answer = Outputs | { readonly outputs: Outputs; readonly report: BatchReport }

/** How a request wants to be answered. */
export interface AnswerOptions {
  /** Indices of the outputs wanted; `null` for all. */
  readonly outputs: readonly number[] | null
  readonly requestId: string | undefined
  readonly report: boolean
  /** Whether it is a later part of a request that was split and accepted: a full queue takes it too. */
  readonly continues: boolean
}

/** One `infer()` on its way through the engine. It settles exactly once. */
export class InferRequest extends QueueEntry {
  readonly data: ParsedFeeds['data']
  readonly dims: ParsedFeeds['dims']
  /** Indices of the outputs wanted; `null` for all. */
  readonly outputs: readonly number[] | null
  /** The same as bits, for the union over a batch; see {@link outputMask}. */
  readonly outputMask: number
  readonly requestId: string | undefined
  readonly wantsReport: boolean
  readonly continues: boolean
  settled = false
  /** Runs it took part in. */
  attempts = 0
  /** Whether a worker died under it. */
  crashed = false
  readonly #resolve: (answer: Answer) => void
  readonly #reject: (reason: unknown) => void
  #signal: AbortSignal | null = null
  #onAbort: (() => void) | null = null

  constructor(
    feeds: ParsedFeeds,
    level: QueueLevel,
    { outputs, requestId, report, continues }: AnswerOptions,
    resolve: (answer: Answer) => void,
    reject: (reason: unknown) => void,
  ) {
    super(feeds.rows, feeds.bucketKey, level)
    this.data = feeds.data
    this.dims = feeds.dims
    this.outputs = outputs
    this.outputMask = outputs === null ? allOutputs : outputMask(outputs)
    this.requestId = requestId
    this.wantsReport = report
    this.continues = continues
    this.#resolve = resolve
    this.#reject = reject
  }

  /** Calls `onAbort` when the signal fires before the request settles. */
  listen(signal: AbortSignal, onAbort: () => void): void {
    this.#signal = signal
    this.#onAbort = onAbort
    watch(signal, onAbort)
  }

  /** True when this call settled the request; false when it was settled before. */
  succeed(answer: Answer): boolean {
    if (!this.#settle()) return false
    this.#resolve(answer)
    return true
  }

  /** As {@link succeed}, with a rejection. */
  fail(reason: unknown): boolean {
    if (!this.#settle()) return false
    this.#reject(reason)
    return true
  }

  #settle(): boolean {
    if (this.settled) return false
    this.settled = true
    if (this.#signal !== null) unwatch(this.#signal, this.#onAbort!)
    return true
  }
}
