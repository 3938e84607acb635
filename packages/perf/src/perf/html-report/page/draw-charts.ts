import type uPlotClass from 'uplot'
import { type Chart, rowsOf } from '../../../web-page/charts/chart.ts'
import { curvePlot } from '../../../web-page/charts/curve-plot.ts'
import { onColourChange, rowElement, sizeOf } from '../../../web-page/charts/page-elements.ts'
import { levelPlot } from '../../../web-page/charts/level-plot.ts'

declare const uPlot: typeof uPlotClass

const charts = JSON.parse(document.getElementById('charts')!.textContent!) as Chart[]
const plots = new Map<Element, uPlotClass>()

/** Draws a chart in its place, replacing the one there. */
function draw(chart: Chart, chosen: number): void {
  const place = document.getElementById(`${chart.id}-plot`)!
  plots.get(place)?.destroy()
  const { options, data } =
    chart.shape === 'curve' ? curvePlot(chart) : levelPlot(chart, chart.views[chosen]!)
  const shared = {
    ...sizeOf(place),
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
  }
  plots.set(place, new uPlot({ ...shared, ...options }, data, place as HTMLElement))
}

/** Writes the figures of the chosen level into a chart's table. */
function fillTable(chart: Chart, chosen: number): void {
  if (chart.shape === 'curve') return
  const body = document.querySelector(`#${chart.id}-table tbody`)!
  body.replaceChildren(...rowsOf(chart, chart.views[chosen]!).map(rowElement))
}

/** Moves from point to point with the arrow keys. */
function step(event: KeyboardEvent): void {
  const plot = plots.get(event.currentTarget as Element)!
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
  if (by === undefined) return
  event.preventDefault()
  const xs = plot.data[0]
  const before = plot.cursor.left! >= 0 ? plot.cursor.idx! : by > 0 ? -1 : xs.length
  const at = Math.max(0, Math.min(xs.length - 1, before + by))
  if (xs.length > 0) plot.setCursor({ left: plot.valToPos(xs[at]!, 'x'), top: 0 })
}

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) plots.get(target)?.setSize(sizeOf(target))
})

for (const chart of charts) {
  const place = document.getElementById(`${chart.id}-plot`)!
  const picker = document.getElementById('level') as HTMLSelectElement | null
  const hasChoice = chart.shape !== 'curve' && chart.views.length > 1
  draw(chart, hasChoice && picker !== null ? picker.selectedIndex : 0)
  if (hasChoice) {
    fillTable(chart, picker!.selectedIndex) // a browser may restore the earlier choice
    picker!.addEventListener('change', () => {
      draw(chart, picker!.selectedIndex)
      fillTable(chart, picker!.selectedIndex)
    })
  }
  place.addEventListener('keydown', step as EventListener)
  place.addEventListener('blur', () => plots.get(place)!.setCursor({ left: -10, top: -10 }))
  sizes.observe(place)
}

onColourChange(() => plots.forEach((plot) => plot.redraw(false)))
addEventListener('beforeprint', () =>
  document.querySelectorAll('details').forEach((details) => (details.open = true)),
)
