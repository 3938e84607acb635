/** Text is never read as HTML: names of models are anybody's. */
export function element(tag: string, text = ''): HTMLElement {
  const made = document.createElement(tag)
  made.textContent = text
  return made
}

/** A row of a table, whose first cell names it. */
export function rowElement(cells: readonly (string | Node)[]): HTMLElement {
  const row = element('tr')
  row.append(
    ...cells.map((cell, index) => {
      const made = element(index === 0 ? 'th' : 'td')
      made.append(cell)
      return made
    }),
  )
  row.firstElementChild!.setAttribute('scope', 'row')
  return row
}
