import { unwatch, watch } from '../../request/abort-watch.ts'

/**
 * Settles as `work` does, or rejects before it is done: with what `timedOut` makes after `timeoutMs`, and with the reason of
 * `signal` once that fires. The work itself goes on, unheard.
 */
export function within<T>(
  work: Promise<T>,
  timeoutMs: number,
  timedOut: () => Error,
  signal?: AbortSignal,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal!.reason as Error)
    const timer = setTimeout(() => reject(timedOut()), timeoutMs)
    if (signal?.aborted === true) onAbort()
    else if (signal !== undefined) watch(signal, onAbort)
    const end = (): void => {
      clearTimeout(timer)
      if (signal !== undefined) unwatch(signal, onAbort)
    }
    work.then(resolve, reject).finally(end)
  })
}
