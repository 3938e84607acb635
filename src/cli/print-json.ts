/** A value as JSON, to standard output. What JSON has no number for (an infinite difference) is text. */
export function printJson(value: unknown): void {
  const text = JSON.stringify(
    value,
    (_, item: unknown) => (typeof item === 'number' && !Number.isFinite(item) ? String(item) : item),
    2,
  )
  process.stdout.write(`${text}\n`)
}
