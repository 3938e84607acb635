/** The exit code that shells give a program ended by Ctrl-C. */
export const interruptedExitCode = 130

/**
 * A signal that the first Ctrl-C (or `kill`) aborts; the program should then end by itself. The second ends
 * it at once.
 *
 * @returns the signal, and a function that restores the usual handling.
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
