import { element } from '../../web-page/charts/page-elements.ts'

/** A name as it stands in a table: a long one is cut by the page, and there as a whole under the pointer. */
export function nameElement(name: string): HTMLElement {
  const shown = element('span', name)
  shown.className = 'name'
  shown.title = name
  return shown
}
