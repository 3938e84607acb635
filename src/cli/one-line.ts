/** What moves the cursor, begins a line or turns the direction of writing: text of a file could forge what is shown beside it. */
const unprintable = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu

/** A text in one line, with nothing in it but what can be seen. */
export function oneLine(text: string): string {
  const lines = text.split('\n').map((each) => each.replace(unprintable, ' ').trim())
  return lines.filter((each) => each !== '').join(' ')
}

/** A text in which what cannot be seen is written as JavaScript and TypeScript have it between quotes. */
export function escaped(text: string): string {
  return text.replace(
    unprintable,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
