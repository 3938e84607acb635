import type uPlot from 'uplot'
import type { View } from './chart.ts'
import { axisFont, colourOf, widthOf } from './theme.ts'

/** In pixels of the page. */
const lineHeight = 15

/** Draws upright lines at places of the horizontal axis, with names that do not cover each other. */
export function drawMarks(plot: uPlot, marks: NonNullable<View['marks']>): void {
  const { ctx, bbox } = plot
  const scale = devicePixelRatio
  ctx.save()
  ctx.strokeStyle = ctx.fillStyle = colourOf('text')
  ctx.font = axisFont.replace('12px', `${12 * scale}px`)
  ctx.textAlign = 'left'
  ctx.textBaseline = 'top'
  ctx.lineWidth = scale
  const ends: number[] = [] // of the names in each line of text
  for (const { at, name } of marks) {
    const x = plot.valToPos(at, 'x', true)
    const width = (widthOf(name) + 8) * scale
    const isAtEnd = x + width > bbox.left + bbox.width
    const left = isAtEnd ? x - width + 4 * scale : x + 4 * scale
    const row = [...ends, -Infinity].findIndex((end) => end <= left)
    ends[row] = left + width
    ctx.setLineDash([4 * scale, 3 * scale])
    ctx.beginPath()
    ctx.moveTo(x, bbox.top)
    ctx.lineTo(x, bbox.top + bbox.height)
    ctx.stroke()
    ctx.fillText(name, left, bbox.top + row * lineHeight * scale)
  }
  ctx.restore()
}
