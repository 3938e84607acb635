import type uPlot from 'uplot'
import type { Colour } from './chart.ts'
import { element } from './page-elements.ts'

/** What is told of the point under the cursor. */
export interface Told {
  readonly title: string
  readonly lines: readonly {
    readonly name: string
    readonly figure: string
    readonly colour?: Colour
    readonly isDashed?: boolean
  }[]
}

/** In pixels of the page. */
const gap = 14

/** The figures at the cursor, beside it. Hidden from screen readers: they have the table. */
export function tooltip(told: (index: number) => Told | null): uPlot.Plugin {
  const box = document.createElement('div')
  box.className = 'tooltip'
  box.hidden = true
  box.ariaHidden = 'true'
  return {
    hooks: {
      init: (plot) => void plot.over.append(box),
      setCursor: (plot) => {
        const { idx, left = -1 } = plot.cursor
        const what = typeof idx === 'number' && left >= 0 ? told(idx) : null
        box.hidden = what === null
        if (what === null) return
        box.replaceChildren(element('strong', what.title), ...what.lines.map(line))
        // Beside the cursor, where there is room; never beyond the plot, which would widen the page.
        const room = plot.over.clientWidth - box.offsetWidth
        const wanted = left + gap <= room ? left + gap : left - gap - box.offsetWidth
        box.style.transform = `translate(${Math.round(Math.max(0, Math.min(room, wanted)))}px, 4px)`
      },
    },
  }
}

function line({ name, figure, colour, isDashed }: Told['lines'][number]): HTMLElement {
  const row = element('span')
  const swatch = element('i')
  swatch.className = 'swatch'
  if (colour !== undefined) swatch.dataset['colour'] = colour
  if (isDashed === true) swatch.dataset['dashed'] = ''
  row.append(swatch, element('span', name), element('b', figure))
  return row
}
