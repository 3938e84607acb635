import type { Colour } from './chart.ts'

/** Widths below this are those of phones. */
const phoneWidthPixels = 480

/** A colour of the page as it is now: light, dark, or printed. */
export function colourOf(name: Colour | 'text' | 'muted' | 'grid' | 'surface' | 'warning'): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
}

export const axisFont =
  '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'

export function sizeOf(place: Element): { width: number; height: number } {
  const width = Math.max(200, Math.floor(place.clientWidth))
  return { width, height: width < phoneWidthPixels ? 240 : 300 }
}

const ruler = document.createElement('canvas').getContext('2d')!

/** How wide a text is on an axis, in pixels of the page. */
export function widthOf(text: string): number {
  ruler.font = axisFont
  return ruler.measureText(text).width
}

/** Calls back whenever colours may have changed: with the scheme, and before and after it is printed. */
export function onColourChange(redraw: () => void): void {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw)
  const root = document.documentElement
  addEventListener('beforeprint', () => {
    root.dataset['printed'] = '' // colours are light on paper, and the canvas has to know before the media has changed
    redraw()
  })
  addEventListener('afterprint', () => {
    delete root.dataset['printed']
    redraw()
  })
}
