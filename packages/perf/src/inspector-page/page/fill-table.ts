import { rowElement } from '../../web-page/charts/page-elements.ts'

/** Writes the rows of a table, or that there are none. */
export function fillTable(id: string, rows: readonly (readonly (string | Node)[])[]): void {
  const body = document.getElementById(id)!.querySelector('tbody')!
  const columns = document.querySelectorAll(`#${id} thead th`).length
  if (rows.length > 0) return body.replaceChildren(...rows.map(rowElement))
  const nothing = rowElement(['none'])
  nothing.className = 'none'
  nothing.firstElementChild!.setAttribute('colspan', String(columns))
  body.replaceChildren(nothing)
}
