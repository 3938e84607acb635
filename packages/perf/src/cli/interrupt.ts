/** What a shell says of a program that Ctrl-C has ended. */
export const interruptedExitCode = 130

/**
 * A signal that the first Ctrl-C (or `kill`) aborts, after which a program is to come to its end by itself; the second ends it at once.
 *
 * @returns and what gives both back their usual meaning.
 */
export function interruptSignal(): { readonly signal: AbortSignal; readonly release: () => void } {
  const controller = new AbortController()
  const interrupt = () => {
    if (controller.signal.aborted) process.exit(interruptedExitCode)
    controller.abort()
  }
  const signals = ['SIGINT', 'SIGTERM'] as const
  for (const name of signals) process.on(name, interrupt)
  const release = () => {
    for (const name of signals) process.off(name, interrupt)
  }
  return { signal: controller.signal, release }
}
