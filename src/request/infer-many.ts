import { InferenceError, invalidArgument } from '../errors.ts'
import type { InferOptions } from '../options/infer-options.ts'
import type { SequenceInferOptions } from '../options/sequence-options.ts'
import { sharedOptionNames } from '../options/check-infer-options.ts'
import { readPlain } from '../options/plain-options.ts'
import { unwatch, watch } from './abort-watch.ts'
import { FullQueueWait } from './full-queue-wait.ts'
import { awaited, checkSource, checkedItem, ignored, iterate, type ItemSource } from './item-source.ts'

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
export interface StreamedModel<I, O> {
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
 * that, and the results are read by whoever iterates. A result that is there is given at once, also while the source has
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
  const noItems = new AbortController() // for those that have not come, nobody waits any more
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
        read++ // not before whoever iterates is done with it
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

const optionNames: readonly string[] = [
  'ordered',
  'maxInFlight',
  ...sharedOptionNames,
] satisfies (keyof InferManyOptions)[]

function readManyOptions(model: string, source: unknown, options: unknown): InferManyOptions {
  checkSource(model, source)
  const read = readPlain('options', options, { model })
  for (const name in read) {
    if (optionNames.includes(name)) continue
    const ofOneRequest = name === 'report' || name === 'requestId'
    const expected = ofOneRequest
      ? 'to be left out: it belongs to one request'
      : `one of ${optionNames.join(', ')}`
    throw invalidArgument(`options.${name}`, expected, name, { model })
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
