import { onTestFinished } from 'vitest'

/** Messages of the warnings that a fallback gives, until the end of the test. */
export function fallbackWarnings(): string[] {
  const messages: string[] = []
  const listener = (warning: Error & { code?: string }) => {
    if (warning.code === 'ZEROHOP_PROVIDER_FALLBACK') messages.push(warning.message)
  }
  process.on('warning', listener)
  onTestFinished(() => void process.off('warning', listener))
  return messages
}
