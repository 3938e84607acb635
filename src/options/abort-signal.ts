import { types } from 'node:util'

const abortedOf = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'aborted')!.get!

/** Whether a value is a signal that can be listened to; a proxy of one cannot, nor can an object that only inherits from it. */
export function isAbortSignal(value: unknown): value is AbortSignal {
  if (types.isProxy(value) || !(value instanceof AbortSignal)) return false
  try {
    abortedOf.call(value)
    return true
  } catch {
    return false
  }
}
