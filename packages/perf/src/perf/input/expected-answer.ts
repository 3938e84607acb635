import type { Outputs } from 'zerohop'

/** An answer that is another than was expected. */
export class UnexpectedAnswer extends Error {
  readonly code = 'UNEXPECTED_ANSWER'
}

/** @throws UnexpectedAnswer where an output is not as was expected, byte by byte. */
export function checkAnswer(
  outputs: Partial<Outputs>,
  expected: ReadonlyMap<string, Uint8Array | readonly string[]>,
): void {
  for (const [name, wanted] of expected) {
    const output = outputs[name] as { readonly data?: unknown } | undefined
    if (output === undefined) throw new UnexpectedAnswer(`output '${name}': expected one, received none`)
    if (!isSame(output.data, wanted))
      throw new UnexpectedAnswer(`output '${name}': its data differs from the validation data`)
  }
}

function isSame(data: unknown, wanted: Uint8Array | readonly string[]): boolean {
  if (ArrayBuffer.isView(wanted)) {
    if (!ArrayBuffer.isView(data)) return false
    return Buffer.from(data.buffer, data.byteOffset, data.byteLength).equals(wanted as Uint8Array)
  }
  const texts = data as readonly string[]
  return (
    Array.isArray(texts) &&
    texts.length === wanted.length &&
    texts.every((text, index) => text === (wanted as readonly string[])[index])
  )
}
