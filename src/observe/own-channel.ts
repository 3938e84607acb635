import { channel, type Channel, type ChannelListener } from 'node:diagnostics_channel'
import { inThisContext, outsideContext } from '../base/async-context.ts'

/**
 * A channel of this library. Its subscribers are called in the context in which they have subscribed; those that have done so before the library
 * was there, in nobody's. Node itself would call them in that of whoever publishes: of one of the requests of a batch, say.
 */
export function ownChannel(name: string): Channel {
  const own = channel(name)
  const calls = new Map<ChannelListener, ChannelListener[]>()
  const bound = new WeakSet<ChannelListener>()
  // Node gives a channel another prototype with its first subscriber, and the one before with its last.
  const plain = (): Channel => Object.getPrototypeOf(own) as Channel
  const methods = {
    subscribe(listener: ChannelListener): void {
      if (typeof listener !== 'function' || bound.has(listener))
        return void plain().subscribe.call(own, listener) // called once more by the other prototype
      const call = inThisContext(listener)
      bound.add(call)
      calls.set(listener, [...(calls.get(listener) ?? []), call])
      plain().subscribe.call(own, call)
    },
    unsubscribe(listener: ChannelListener): boolean {
      const [call = listener, ...others] = calls.get(listener) ?? []
      if (others.length > 0) calls.set(listener, others)
      else calls.delete(listener)
      return Boolean(plain().unsubscribe.call(own, call))
    },
    publish(message: unknown): void {
      outsideContext(() => plain().publish.call(own, message))
    },
  }
  return Object.assign(own, methods)
}
