import { invalidArgument } from './errors.ts'
import type { Observers } from './observability/observers.ts'

const byEngine = new WeakMap<object, Observers>()

/** Notes who looks on at an engine, for the rooms above that add others. */
export function noteObservers(engine: object, observers: Observers): void {
  byEngine.set(engine, observers)
}

/**
 * Who looks on at an engine.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for anything else.
 */
export function observersOf(engine: unknown): Observers {
  const observers = typeof engine === 'object' && engine !== null ? byEngine.get(engine) : undefined
  if (observers === undefined) throw invalidArgument('engine', 'an InferenceEngine', engine)
  return observers
}
