import type uPlot from 'uplot'
import type { Series } from './chart.ts'
import { colourOf } from './theme.ts'

/** In pixels of the page. */
const radius = 4

/** Draws the points of a series; hollow where a level did not become stable. */
export function drawDots(
  plot: uPlot,
  series: number,
  { colour, values }: Series,
  isUnstable: (index: number) => boolean,
): void {
  const { ctx, data } = plot
  ctx.save()
  ctx.setLineDash([]) // the series' own would be left from its line
  ctx.lineWidth = 2 * devicePixelRatio
  ctx.strokeStyle = colourOf(colour)
  for (const index of values.keys()) {
    const value = data[series]![index]
    if (value === null || value === undefined) continue
    ctx.fillStyle = colourOf(isUnstable(index) ? 'surface' : colour)
    ctx.beginPath()
    ctx.arc(
      plot.valToPos(data[0][index]!, 'x', true),
      plot.valToPos(value, 'y', true),
      radius * devicePixelRatio,
      0,
      2 * Math.PI,
    )
    ctx.fill()
    ctx.stroke()
  }
  ctx.restore()
}
