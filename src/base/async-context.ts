import { AsyncResource } from 'node:async_hooks'

/** In which nothing of a caller is: what is begun in it keeps no store of an `AsyncLocalStorage` alive. */
const nobodys = new AsyncResource('zerohop')
// But those of whoever has imported this, perhaps for its first request: Node keeps them under symbols of the resource, itself being under others.
for (const symbol of Object.getOwnPropertySymbols(nobodys))
  if (/store|frame/i.test(symbol.description ?? '')) Object.assign(nobodys, { [symbol]: undefined })

/** Does what outlives its caller (threads, timers, sockets and files that are watched) in the context of nobody. */
export function outsideContext<T>(work: () => T): T {
  return nobodys.runInAsyncScope(work)
}

/** A function that runs in the context in which it is made, whoever calls it. */
export function inThisContext<Args extends unknown[]>(
  call: (...args: Args) => void,
): (...args: Args) => void {
  const context = new AsyncResource('zerohop.listener')
  return (...args) => context.runInAsyncScope(call, undefined, ...args)
}
