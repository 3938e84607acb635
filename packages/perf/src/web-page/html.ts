const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Text that is HTML already. Only {@link html} makes it, so that nothing gets into a page unescaped. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Part = Html | string | number | null | readonly Part[]

/**
 * A template tag for HTML. Inserted text is escaped, inserted HTML is not; lists are joined, `null` is
 * nothing.
 */
export function html(literals: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(
    literals.reduce((before, literal, index) => `${before}${escaped(parts[index - 1] ?? null)}${literal}`),
  )
}

function escaped(part: Part): string {
  if (part === null) return ''
  if (part instanceof Html) return part.text
  if (typeof part === 'object') return part.map(escaped).join('')
  return String(part)
    .toWellFormed()
    .replace(/[&<>"']/g, (character) => entities[character]!)
}

/** Data for a script in the page. It cannot end the script element or begin a comment. */
export function jsonText(data: unknown): Html {
  return new Html(
    JSON.stringify(data)
      .replaceAll('<', '\\u003c')
      .replaceAll('\u2028', '\\u2028')
      .replaceAll('\u2029', '\\u2029'),
  )
}
