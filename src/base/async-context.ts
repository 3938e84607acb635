import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'

/**
 * A context without a caller's data: work that begins in it does not keep the stores of any
 * `AsyncLocalStorage` alive.
 */
const nobodys = new AsyncResource('zerohop')
// Node keeps the stores that were current when this module was imported, under symbols of the resource. Drop
// them.
for (const symbol of Object.getOwnPropertySymbols(nobodys))
  if (/store|frame/i.test(symbol.description ?? '')) Object.assign(nobodys, { [symbol]: undefined })

/** Begins work that outlives its caller (threads, timers, sockets, file watchers) outside of the caller's context. */
export function outsideContext<T>(work: () => T): T {
  return nobodys.runInAsyncScope(work)
}

/** A function that runs in the context in which it was made, whatever context it is called from. */
export function inThisContext<Args extends unknown[]>(
  call: (...args: Args) => void,
): (...args: Args) => void {
  const context = new AsyncResource('zerohop.listener')
  return (...args) => context.runInAsyncScope(call, undefined, ...args)
}

/** A run of one of the application's functions, as the function's own code sees it. */
export interface RunScope {
  /** The request or batch that it runs for; the code that sets it knows its type. */
  readonly asker: object
  /** Set when the function has answered: what it does later is not part of the run. */
  isOver: boolean
}

/** The run that the current code of a function belongs to. It is only entered, and only costs time, while an engine is observed. */
export const runScope = new AsyncLocalStorage<RunScope | undefined>()
