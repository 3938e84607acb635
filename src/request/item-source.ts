import { isPromise } from 'node:util/types'
import { typed } from '../options/plain-options.ts'
import { invalidArgument, type InferenceError } from '../errors.ts'
import { untilAborted } from './abort-watch.ts'

/** Where the items of a stream come from. One that is a promise is awaited; if that rejects, its item has the error. */
export type ItemSource<I> = Iterable<I | Promise<I>> | AsyncIterable<I>

/** @throws InferenceError `ERR_INVALID_INPUT` for what cannot be iterated. */
export function checkSource(model: string, source: unknown): asserts source is ItemSource<unknown> {
  let iterable: boolean
  try {
    iterable = isObject(source) && (Symbol.asyncIterator in source || Symbol.iterator in source)
  } catch (error) {
    throw typed('source', error, { model })
  }
  if (!iterable) throw notIterable(model, source)
}

/** As `for await` does it: by the asynchronous iterator if there is one. */
export function iterate<I>(
  model: string,
  source: ItemSource<I>,
): Iterator<I | Promise<I>> | AsyncIterator<I> {
  // What was made ahead may reject before it is read, which ends the process unless somebody listens.
  if (Array.isArray(source) || source instanceof Set) for (const item of source) ignored(item)
  const { [Symbol.asyncIterator]: asynchronous } = source as Partial<AsyncIterable<I>>
  const start: unknown = asynchronous ?? (source as Iterable<I>)[Symbol.iterator]
  if (typeof start !== 'function') throw notIterable(model, source)
  const iterator: unknown = start.call(source)
  if (isObject(iterator) && 'next' in iterator && typeof iterator.next === 'function')
    return iterator as unknown as Iterator<I>
  throw notIterable(model, source)
}

/** What an iterator gave, which is an object unless it is none of the language's. */
export function checkedItem<T>(model: string, item: T): T {
  if (isObject(item)) return item
  throw invalidArgument('source', 'an iterator whose next() gives objects', item, { model })
}

/** The item, which may be a promise; an `Error` when that rejects, or `signal` fires first. */
export async function awaited<I>(item: I | Promise<I>, signal: AbortSignal): Promise<I> {
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

/** That it rejects is nobody's business. */
export function ignored(item: unknown): void {
  if (isPromise(item)) item.catch(() => {})
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}

function notIterable(model: string, source: unknown): InferenceError {
  return invalidArgument('source', 'an iterable or async iterable of feeds', source, { model })
}
