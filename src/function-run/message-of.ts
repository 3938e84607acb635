/** What is sent of what a function has thrown. */
export function messageOf(reason: unknown): string {
  if (!(reason instanceof Error)) return String(reason)
  return reason.message === '' ? reason.name : reason.message
}
