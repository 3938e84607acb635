import { InferenceError, invalidArgument } from '../errors.ts'
import type { InferOptions } from './config.ts'

/** Options of {@link Model.inferMany}: those of `infer()`, which hold for each item, and these. */
export interface InferManyOptions<Output extends string = string> extends Omit<InferOptions<Output>, 'report' | 'requestId'> {
  /** Whether results come in the order of their items; `false`: as they are done. Default `true`. */
  ordered?: boolean
  /** Most items in flight at once; no more are taken from the source meanwhile. Default: two full batches per instance. */
  maxInFlight?: number
}

/** The result of one item: `outputs`, or the `error` with which it alone was rejected. */
export type InferManyResult<O> =
  | { readonly index: number; readonly outputs: O; readonly error?: undefined }
  | { readonly index: number; readonly outputs?: undefined; readonly error: unknown }

/** What a stream of requests needs from its model. */
export interface ManyHost<I, O> {
  readonly name: string
  readonly defaultInFlight: number
  infer(feeds: I, options: InferOptions): Promise<O>
}

/** How long to wait when a full queue does not say it. */
const retryMs = 5

/**
 * Runs every item of a source through a model, with as many in flight as it can use: the source is read no faster than
 * that, and the results are read by whoever iterates. A result that is there is given at once, also while the source has
 * no next item yet, which may depend on it. A full queue is waited for; every other error belongs to its item. When the
 * source itself fails, the results of what it gave come first and its error is thrown then. Leaving the loop early closes
 * the source and withdraws what is still queued.
 */
export async function* inferMany<I, O>(
  host: ManyHost<I, O>,
  source: Iterable<I> | AsyncIterable<I>,
  options: InferManyOptions = {},
): AsyncGenerator<InferManyResult<O>, void, undefined> {
  const { ordered = true, maxInFlight = host.defaultInFlight, signal, ...rest } = options
  check(host.name, source, ordered, maxInFlight)
  const leave = new AbortController()
  const each: InferOptions = { ...rest, signal: signal === undefined ? leave.signal : AbortSignal.any([signal, leave.signal]) }
  const items = iterate(source)
  const done = new Map<number, InferManyResult<O>>()
  let given = 0
  let read = 0
  let filling = false
  let ended = false // the source, or the interest in it
  let failure: { reason: unknown } | null = null
  let wake = (): void => {}

  const start = async (feeds: I, index: number): Promise<void> => {
    done.set(index, await run(host, feeds, each, index))
    wake()
  }
  const fill = async (): Promise<void> => {
    filling = true
    try {
      while (!ended && given - read < maxInFlight) {
        const item = await items.next()
        if (item.done === true) ended = true
        else if (!ended) void start(item.value, given++)
      }
    } catch (reason) {
      failure = { reason }
      ended = true
    }
    filling = false
    wake()
  }

  try {
    for (;;) {
      if (!ended && !filling) void fill()
      const result = ordered ? done.get(read) : done.values().next().value
      if (result !== undefined) {
        done.delete(result.index)
        yield result
        read++ // not before whoever iterates is done with it
      } else if (ended && given === read) break
      else await new Promise<void>((resolve) => (wake = resolve))
    }
    if (failure !== null) throw (failure as { reason: unknown }).reason
  } finally {
    leave.abort()
    if (!ended) {
      ended = true
      const closed = Promise.resolve(items.return?.())
      // A source that is asked for an item closes when it has one, which may be never.
      if (filling) closed.catch(() => {})
      else await closed
    }
  }
}

function check(model: string, source: unknown, ordered: unknown, maxInFlight: unknown): void {
  const iterable = typeof source === 'object' && source !== null && (Symbol.asyncIterator in source || Symbol.iterator in source)
  if (!iterable) throw invalidArgument('source', 'an iterable or async iterable of feeds', source, { model })
  if (typeof ordered !== 'boolean') throw invalidArgument('options.ordered', 'true or false', ordered, { model })
  if (!(Number.isSafeInteger(maxInFlight) && (maxInFlight as number) >= 1)) {
    throw invalidArgument('options.maxInFlight', 'a whole number, 1 or more', maxInFlight, { model })
  }
}

function iterate<I>(source: Iterable<I> | AsyncIterable<I>): AsyncIterator<I> | Iterator<I> {
  return Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]()
}

async function run<I, O>(host: ManyHost<I, O>, feeds: I, options: InferOptions, index: number): Promise<InferManyResult<O>> {
  for (;;) {
    try {
      return { index, outputs: await host.infer(feeds, options) }
    } catch (error) {
      if (!(error instanceof InferenceError && error.code === 'ERR_QUEUE_FULL')) return { index, error }
      const waitMs = error.retryAfterMs ?? retryMs
      // Referenced: whoever waits for this stream waits for the queue.
      await new Promise((resolve) => setTimeout(resolve, waitMs))
      if (options.signal?.aborted) return { index, error: options.signal.reason }
    }
  }
}
