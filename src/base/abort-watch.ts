interface Watch {
  readonly callbacks: Set<() => void>
  readonly onAbort: () => void
}

/**
 * What waits for each signal. A signal gets one listener however many requests share it: Node warns of a leak from the
 * eleventh on, and removes listeners by a search.
 */
const watches = new WeakMap<AbortSignal, Watch>()

/** Calls `callback` when `signal` fires; until {@link unwatch}. */
export function watch(signal: AbortSignal, callback: () => void): void {
  let watched = watches.get(signal)
  if (watched === undefined) {
    const callbacks = new Set<() => void>()
    const onAbort = (): void => {
      watches.delete(signal)
      for (const call of callbacks) call()
    }
    watches.set(signal, (watched = { callbacks, onAbort }))
    signal.addEventListener('abort', onAbort, { once: true })
  }
  watched.callbacks.add(callback)
}

/** The end of a {@link watch}; the last one takes the listener away. */
export function unwatch(signal: AbortSignal, callback: () => void): void {
  const watched = watches.get(signal)
  if (watched === undefined || !watched.callbacks.delete(callback) || watched.callbacks.size > 0) return
  watches.delete(signal)
  signal.removeEventListener('abort', watched.onAbort)
}

/** Settles as `promise` does, or rejects with the signal's reason as soon as that fires. */
export async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise
  let onAbort!: () => void
  const aborted = new Promise<never>((_, reject) => (onAbort = () => reject(signal.reason)))
  if (signal.aborted) onAbort()
  else watch(signal, onAbort)
  try {
    return await Promise.race([promise, aborted])
  } finally {
    unwatch(signal, onAbort)
  }
}
