import type uPlot from 'uplot'
import { quantityAxis, valueAxis } from './axes.ts'
import type { Curve, CurveChart, Series, View } from './chart.ts'
import { figureOf } from './figures.ts'
import { axisFont, colourOf, type Told, toldAt, tooltip, widthOf } from './page-elements.ts'

/** A point of all series of one curve. */
interface Place {
  readonly x: number
  readonly curve: number
  /** Position in the order of its curve's measurement. */
  readonly index: number
}

/** With more dots, they would hide their line. */
const mostDots = 100
/** Room above the highest point, for its name. */
const headroom = 1.08

/**
 * How to draw a curve over a quantity: from left to right for uPlot, with points joined in the order of
 * measurement.
 */
export function curvePlot({ curves, x, y }: CurveChart): {
  options: Omit<uPlot.Options, 'width' | 'height'>
  data: uPlot.AlignedData
} {
  const places = curves
    .flatMap(({ xs }, curve) =>
      xs.flatMap((at, index): Place[] => (at === null ? [] : [{ x: at, curve, index }])),
    )
    .sort((a, b) => a.x - b.x)
  const all = curves.flatMap((curve, number) =>
    curve.series.map((series) => ({
      curve,
      number,
      series: alongPlaces(series, number, places, y.isLogarithmic),
    })),
  )
  const horizontal = quantityAxis(
    x,
    places.map((place) => place.x),
  )
  const vertical = valueAxis(
    y,
    all.flatMap(({ series }) => series.values.map((value) => value && value * headroom)),
  )
  const nameOf = ({ curve, index }: Place) => curves[curve]!.names[index]!
  const isUnstable = (place: number) => curves[places[place]!.curve]!.unstable.includes(places[place]!.index)

  const told = (at: number): Told | null => {
    const place = places[at]
    if (place === undefined) return null
    const own = all.filter(({ number }) => number === place.curve).map(({ series }) => series)
    return {
      title: `${nameOf(place)}${isUnstable(at) ? ' (unstable)' : ''}`,
      lines: [...toldAt(own, at, y.unit), { name: x.label, figure: figureOf(place.x, x.unit) }],
    }
  }

  const options: Omit<uPlot.Options, 'width' | 'height'> = {
    axes: [horizontal.axis, vertical.axis],
    scales: { x: horizontal.scale, y: vertical.scale },
    series: [
      {},
      ...all.map(({ number, series: { colour, isDashed = false } }): uPlot.Series => ({
        stroke: () => colourOf(colour),
        width: 2,
        dash: isDashed ? [6, 4] : undefined,
        points: { show: false },
        paths: joined(measuredOrder(places, number)),
      })),
    ],
    plugins: [tooltip(told)],
    hooks: {
      drawSeries:
        places.length > mostDots
          ? []
          : [(plot, index) => drawDots(plot, index, all[index - 1]!.series, isUnstable)],
      draw: [(plot) => drawNames(plot, curves, places)],
    },
  }
  return {
    options,
    data: [places.map((place) => place.x), ...all.map(({ series }) => series.values)] as uPlot.AlignedData,
  }
}

/** A series of one curve, aligned with the places of all curves. */
function alongPlaces(
  series: Series,
  curve: number,
  places: readonly Place[],
  isLogarithmic: boolean,
): Series {
  const values = places.map((place) => {
    const value = place.curve === curve ? (series.values[place.index] ?? null) : null
    return value !== null && (value > 0 || !isLogarithmic) ? value : null
  })
  return { ...series, values }
}

function measuredOrder(places: readonly Place[], curve: number): number[] {
  const own = [...places.keys()].filter((at) => places[at]!.curve === curve)
  return own.sort((a, b) => places[a]!.index - places[b]!.index)
}

function joined(order: readonly number[]): uPlot.Series.PathBuilder {
  return (plot, series) => {
    const stroke = new Path2D()
    for (const at of order) {
      const value = plot.data[series]![at]
      if (value !== null && value !== undefined)
        stroke.lineTo(plot.valToPos(plot.data[0][at]!, 'x', true), plot.valToPos(value, 'y', true))
    }
    return { stroke }
  }
}

/**
 * Writes names of places above and to the left of their highest value, where a rising curve leaves room, as
 * far as they fit.
 */
function drawNames(plot: uPlot, curves: readonly Curve[], places: readonly Place[]): void {
  const { ctx, data, bbox } = plot
  const scale = devicePixelRatio
  ctx.save()
  ctx.fillStyle = colourOf('muted')
  ctx.font = axisFont.replace('12px', `${12 * scale}px`)
  ctx.textAlign = 'right'
  ctx.textBaseline = 'bottom'
  const taken: { left: number; right: number; y: number }[] = []
  for (const [at, { x, curve, index }] of places.entries()) {
    const tops = data
      .slice(1)
      .flatMap((values) => (typeof values[at] === 'number' ? [plot.valToPos(values[at], 'y', true)] : []))
    if (tops.length === 0) continue
    const name = curves[curve]!.names[index]!
    const width = (widthOf(name) + 6) * scale
    const right = Math.max(bbox.left + width, plot.valToPos(x, 'x', true) + 2 * scale)
    const y = Math.max(bbox.top + 14 * scale, Math.min(...tops) - 6 * scale)
    if (
      taken.some(
        (other) => other.left < right && other.right > right - width && Math.abs(other.y - y) < 15 * scale,
      )
    )
      continue
    taken.push({ left: right - width, right, y })
    ctx.fillText(name, right, y)
  }
  ctx.restore()
}

/** In CSS pixels. */
const radius = 4

/** Draws the points of a series; hollow for levels that were not stable. */
export function drawDots(
  plot: uPlot,
  series: number,
  { colour, values }: Series,
  isUnstable: (index: number) => boolean,
): void {
  const { ctx, data } = plot
  ctx.save()
  ctx.setLineDash([]) // the dashes of its line would still be set
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

/** In CSS pixels. */
const lineHeight = 15

/** Draws vertical lines at places of the horizontal axis, with names that do not overlap. */
export function drawMarks(plot: uPlot, marks: NonNullable<View['marks']>): void {
  const { ctx, bbox } = plot
  const scale = devicePixelRatio
  ctx.save()
  ctx.strokeStyle = ctx.fillStyle = colourOf('text')
  ctx.font = axisFont.replace('12px', `${12 * scale}px`)
  ctx.textAlign = 'left'
  ctx.textBaseline = 'top'
  ctx.lineWidth = scale
  const ends: number[] = [] // where the names in each line of text end
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
