import type uPlot from 'uplot'
import type { Colour, colours } from '../colours.ts'
import type { Series, Unit } from './chart.ts'
import { figureOf } from './figures.ts'

/** Text is never parsed as HTML, as names of models may contain anything. */
export function element(tag: string, text = ''): HTMLElement {
  const made = document.createElement(tag)
  made.textContent = text
  return made
}

/** A table row. The first cell is its heading. */
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

/** Smaller widths are phones. */
const phoneWidthPixels = 480

/** A colour of the page in its current state: light, dark, or printed. */
export function colourOf(name: keyof typeof colours): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
}

export const axisFont =
  '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'

export function sizeOf(place: Element): { width: number; height: number } {
  const width = Math.max(200, Math.floor(place.clientWidth))
  return { width, height: width < phoneWidthPixels ? 240 : 300 }
}

const ruler = document.createElement('canvas').getContext('2d')!

/** Width of a text on an axis, in CSS pixels. */
export function widthOf(text: string): number {
  ruler.font = axisFont
  return ruler.measureText(text).width
}

/** Calls back when colours may have changed: with the colour scheme, and before and after printing. */
export function onColourChange(redraw: () => void): void {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw)
  const root = document.documentElement
  addEventListener('beforeprint', () => {
    root.dataset['printed'] = '' // paper needs light colours, and the canvas must be redrawn before the media type changes
    redraw()
  })
  addEventListener('afterprint', () => {
    delete root.dataset['printed']
    redraw()
  })
}

/** The tooltip of the point under the cursor. */
export interface Told {
  readonly title: string
  readonly lines: readonly {
    readonly name: string
    readonly figure: string
    readonly colour?: Colour
    readonly isDashed?: boolean
  }[]
}

/** The figures of series at a point, the last series first, as charts draw them. */
export function toldAt(series: readonly Series[], at: number, unit: Unit): Told['lines'][number][] {
  return series
    .map(({ name, colour, values, isDashed = false }) => ({
      name,
      colour,
      isDashed,
      figure: figureOf(values[at] ?? null, unit),
    }))
    .reverse()
}

/** In CSS pixels. */
const gap = 14

/** Shows the figures at the cursor, beside it. Hidden from screen readers, which have the table. */
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
        // Beside the cursor, on the side with room; never beyond the plot, as that would widen the page.
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
