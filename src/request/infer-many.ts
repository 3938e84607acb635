import { isPromise } from 'node:util/types'
import { InferenceError, invalidArgument } from '../errors.ts'
import { sharedOptionNames, type InferOptions, type SequenceInferOptions } from '../options/infer-options.ts'
import { readPlain, typed, unknownOption } from '../options/plain-options.ts'
import { untilAborted, unwatch, watch } from '../base/abort-watch.ts'

/** Options of {@link Model.inferMany}: those of `infer()`, which hold for each item, and these. */
export interface InferManyOptions<Output extends string = string> extends Omit<
  InferOptions<Output>,
  'report' | 'requestId' | keyof SequenceInferOptions
> {
  /** Whether results come in the order of their items; `false`: as they are done. Default `true`. */
  ordered?: boolean | undefined
  /** Most items in flight at once; no more are taken from the source meanwhile. Default: two full batches per instance, 128 of a model of another process. */
  maxInFlight?: number | undefined
}

/**
 * The result of one item: `outputs`, or the `error` with which it alone was rejected. The error of one that was withdrawn is
 * the signal's reason, that of an item that was a promise what this rejected with: typed as the `Error` that it should be,
 * and where it is false, an `AbortError` or an `Error` of which it is the `cause`.
 */
export type InferManyResult<O> =
  | { readonly index: number; readonly outputs: O; readonly error?: undefined }
  | { readonly index: number; readonly outputs?: undefined; readonly error: Error }

/** What a stream of requests needs from its model. */
interface StreamedModel<I, O> {
  readonly name: string
  /** Throws what `infer` would reject every item with: that the model was never ready, or that an option is wrong. */
  start(options: InferOptions): {
    readonly defaultInFlight: number
    /** Requests with these options that would be accepted now. */
    room(): number
  }
  infer(feeds: I, options: InferOptions): Promise<O>
}

/**
 * Runs every item of a source through a model, with as many in flight as it can use: the source is read no faster than
 * that, and the caller iterates over the results. A result that is there is given at once, also while the source has
 * no next item yet, which may depend on it. A full queue is waited for; every other error belongs to its item. When the
 * source itself fails, the results of what it gave come first and its error is thrown then; so it is with the reason of
 * the signal, and when the model is closed or has failed, as no further item could succeed. Leaving the loop early closes
 * the source and withdraws what is still queued.
 */
export async function* inferMany<I, O>(
  model: StreamedModel<I, O>,
  source: ItemSource<I>,
  options: InferManyOptions = {},
): AsyncGenerator<InferManyResult<O>, void, undefined> {
  const {
    ordered = true,
    maxInFlight: wanted,
    signal,
    ...rest
  } = readManyOptions(model.name, source, options)
  const { defaultInFlight, room } = model.start({ ...rest, ...(signal === undefined ? {} : { signal }) })
  const maxInFlight = wanted ?? defaultInFlight
  check(model.name, ordered, maxInFlight)
  const leave = new AbortController()
  const each = { ...rest, signal: leave.signal }
  const noItems = new AbortController() // fires when items that have not come are no longer waited for
  const fullQueue = new FullQueueWait(room)
  const items = iterate(model.name, source)
  const done = new Map<number, InferManyResult<O>>()
  let given = 0
  let read = 0
  let filling = false
  let ended = false // the source, or the interest in it
  let drained = false // the source itself has ended or failed, and needs no closing
  let failure: { reason: unknown } | null = null
  let wake = (): void => {}

  const fail = (reason: unknown): void => {
    failure ??= { reason }
    ended = true
  }
  const onAbort = (): void => {
    fail(signal!.reason)
    noItems.abort(signal!.reason)
    leave.abort(signal!.reason)
    fullQueue.leave()
    wake()
  }
  const answer = async (item: I | Promise<I>, index: number): Promise<InferManyResult<O>> => {
    let feeds: I
    try {
      feeds = await awaited(item, noItems.signal)
    } catch (error) {
      return { index, error: error as Error }
    }
    const result = await run(model, feeds, each, index, fullQueue)
    if (isFinal(result.error)) {
      fail(result.error)
      noItems.abort(result.error)
    }
    return result
  }
  const start = async (item: I | Promise<I>, index: number): Promise<void> => {
    done.set(index, await answer(item, index))
    wake()
  }
  const fill = async (): Promise<void> => {
    filling = true
    try {
      while (!ended && given - read < maxInFlight) {
        const item = checkedItem(model.name, await items.next())
        if (item.done === true) ended = drained = true
        else if (ended) ignored(item.value)
        else void start(item.value, given++)
      }
    } catch (reason) {
      drained = true
      fail(reason)
    }
    filling = false
    wake()
  }

  if (signal?.aborted) onAbort()
  else if (signal !== undefined) watch(signal, onAbort)
  try {
    for (;;) {
      if (!ended && !filling) void fill()
      const result = ordered ? done.get(read) : done.values().next().value
      if (result !== undefined) {
        done.delete(result.index)
        yield result
        read++ // not before the caller's loop is done with it
      } else if (ended && given === read) break
      else await new Promise<void>((resolve) => (wake = resolve))
    }
    if (failure !== null) throw (failure as { reason: unknown }).reason
  } finally {
    if (signal !== undefined) unwatch(signal, onAbort)
    noItems.abort()
    leave.abort()
    fullQueue.leave()
    ended = true
    if (!drained) {
      const closed = (async () => void (await items.return?.()))() // which may throw, too
      // A source that is asked for an item closes when it has one, which may be never; and an error comes before its own.
      if (filling || failure !== null) closed.catch(() => {})
      else await closed
    }
  }
}

const optionNames: readonly string[] = ['ordered', 'maxInFlight', ...sharedOptionNames]

function readManyOptions(model: string, source: unknown, options: unknown): InferManyOptions {
  checkSource(model, source)
  const read = readPlain('options', options, { model })
  for (const name in read) {
    if (optionNames.includes(name)) continue
    if (name === 'report' || name === 'requestId')
      throw invalidArgument(`options.${name}`, 'to be omitted: it belongs to one request', name, { model })
    throw unknownOption(`options.${name}`, name, optionNames, { model })
  }
  return read
}

function check(model: string, ordered: unknown, maxInFlight: unknown): void {
  if (typeof ordered !== 'boolean')
    throw invalidArgument('options.ordered', 'true or false', ordered, { model })
  if (!(Number.isSafeInteger(maxInFlight) && (maxInFlight as number) >= 1)) {
    throw invalidArgument('options.maxInFlight', 'a whole number, 1 or more', maxInFlight, { model })
  }
}

/** Whether an error of one item will be that of every other. */
function isFinal(error: unknown): boolean {
  return (
    error instanceof InferenceError && (error.code === 'ERR_CLOSED' || error.code === 'ERR_MODEL_NOT_READY')
  )
}

/** The result of one item, which waits where the queue is full. */
async function run<I, O>(
  model: StreamedModel<I, O>,
  feeds: I,
  options: InferOptions & { signal: AbortSignal },
  index: number,
  fullQueue: FullQueueWait,
): Promise<InferManyResult<O>> {
  const turn = fullQueue.turn(index)
  if (turn !== null) await turn
  for (;;) {
    if (options.signal.aborted) return { index, error: asError(options.signal.reason) }
    try {
      return { index, outputs: await model.infer(feeds, options) }
    } catch (error) {
      if (!(error instanceof InferenceError && error.code === 'ERR_QUEUE_FULL'))
        return { index, error: asError(error) }
      await fullQueue.refused(index, error.retryAfterMs)
    }
  }
}

/** A signal may fire with any reason, also with one that `if (error)` would miss. */
function asError(reason: unknown): Error {
  return (reason ||
    new DOMException('The operation was aborted', { name: 'AbortError', cause: reason })) as Error
}

/** Where the items of a stream come from. One that is a promise is awaited; if that rejects, its item has the error. */
export type ItemSource<I> = Iterable<I | Promise<I>> | AsyncIterable<I>

/** @throws InferenceError `ERR_INVALID_ARG` for what cannot be iterated. */
function checkSource(model: string, source: unknown): asserts source is ItemSource<unknown> {
  let iterable: boolean
  try {
    iterable = isObject(source) && (Symbol.asyncIterator in source || Symbol.iterator in source)
  } catch (error) {
    throw typed('source', error, { model })
  }
  if (!iterable) throw notIterable(model, source)
}

/** As `for await` does it: by the asynchronous iterator if there is one. */
function iterate<I>(model: string, source: ItemSource<I>): Iterator<I | Promise<I>> | AsyncIterator<I> {
  // Promises that exist already may reject before they are read, which ends the process unless they have a handler.
  if (Array.isArray(source) || source instanceof Set) for (const item of source) ignored(item)
  const { [Symbol.asyncIterator]: asynchronous } = source as Partial<AsyncIterable<I>>
  const start: unknown = asynchronous ?? (source as Iterable<I>)[Symbol.iterator]
  if (typeof start !== 'function') throw notIterable(model, source)
  const iterator: unknown = start.call(source)
  if (isObject(iterator) && typeof (iterator as Partial<Iterator<I>>).next === 'function')
    return iterator as Iterator<I>
  throw notIterable(model, source)
}

/** What an iterator gave, which is an object unless it is none of the language's. */
function checkedItem<T>(model: string, item: T): T {
  if (isObject(item)) return item
  throw invalidArgument('source', 'an iterator whose next() gives objects', item, { model })
}

/** The item, which may be a promise; an `Error` when that rejects, or `signal` fires first. */
async function awaited<I>(item: I | Promise<I>, signal: AbortSignal): Promise<I> {
  if (!isPromise(item)) return item
  try {
    return (await untilAborted(item, signal)) as I
  } catch (reason) {
    if (reason) throw reason
    throw signal.aborted
      ? new DOMException('The operation was aborted', { name: 'AbortError', cause: reason })
      : new Error(`The item was rejected with ${String(reason)}`, { cause: reason })
  }
}

/** Keeps a promise that is no longer needed from ending the process when it rejects. */
function ignored(item: unknown): void {
  if (isPromise(item)) item.catch(() => {})
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}

function notIterable(model: string, source: unknown): InferenceError {
  return invalidArgument('source', 'an iterable or async iterable of feeds', source, { model })
}

/** How long to wait when a full queue does not say it. */
const retryMs = 5

interface Waiting {
  readonly index: number
  readonly go: () => void
}

/**
 * Where the items of one stream wait while the queue is full: all for one timer, however many they are, and then in their
 * order as many as there is room for.
 */
class FullQueueWait {
  readonly #room: () => number
  readonly #waiting: Waiting[] = [] // by index
  #timer: NodeJS.Timeout | null = null
  #left = false

  /** @param room returns how many requests would be accepted now. */
  constructor(room: () => number) {
    this.#room = room
  }

  /** Resolves when an item may be tried for the first time; `null` for at once, as no others wait before it. */
  turn(index: number): Promise<void> | null {
    return this.#waiting.length === 0 ? null : this.#wait(index)
  }

  /** An item was refused: resolves when it may be tried again. */
  async refused(index: number, retryAfterMs = retryMs): Promise<void> {
    if (this.#left) return
    // A timer that holds the process: a caller that waits for the stream waits for the queue.
    this.#timer ??= setTimeout(() => this.#retry(retryAfterMs), retryAfterMs)
    await this.#wait(index)
  }

  /** Lets all go: the stream is left, and nothing more of it is to be tried. */
  leave(): void {
    this.#left = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    for (const { go } of this.#waiting.splice(0)) go()
  }

  #wait(index: number): Promise<void> {
    const after = this.#waiting.findIndex((other) => other.index > index)
    return new Promise((go) =>
      this.#waiting.splice(after === -1 ? this.#waiting.length : after, 0, { index, go }),
    )
  }

  #retry(afterMs: number): void {
    const going = this.#waiting.splice(0, this.#room())
    this.#timer = this.#waiting.length === 0 ? null : setTimeout(() => this.#retry(afterMs), afterMs)
    for (const { go } of going) go()
  }
}
