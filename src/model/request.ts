import { QueueEntry } from '../batching/entry.ts'
import type { TensorData } from '../tensor.ts'
import { unwatch, watch } from './abort-watch.ts'
import type { Outputs } from './config.ts'

/** Checked inputs of one request, in the order of the model's inputs. */
export interface ParsedFeeds {
  readonly rows: number
  readonly shapeKey: string
  readonly data: readonly (TensorData | readonly string[])[]
  /** Dims of each input; `null` when the model fixes everything but the rows. */
  readonly dims: readonly (readonly number[])[] | null
}

/** The mask that wants every output. */
const allOutputs = -1

function outputMask(outputs: readonly number[]): number {
  return outputs.reduce((mask, index) => (index > 30 ? mask : mask | (1 << index)), 0)
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
  settled = false
  readonly #resolve: (outputs: Outputs) => void
  readonly #reject: (reason: unknown) => void
  #signal: AbortSignal | null = null
  #onAbort: (() => void) | null = null

  constructor(
    feeds: ParsedFeeds,
    outputs: readonly number[] | null,
    requestId: string | undefined,
    resolve: (outputs: Outputs) => void,
    reject: (reason: unknown) => void,
  ) {
    super(feeds.rows, feeds.shapeKey)
    this.data = feeds.data
    this.dims = feeds.dims
    this.outputs = outputs
    this.outputMask = outputs === null ? allOutputs : outputMask(outputs)
    this.requestId = requestId
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
  succeed(outputs: Outputs): boolean {
    if (!this.#settle()) return false
    this.#resolve(outputs)
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
