import type uPlot from 'uplot'
import { quantityAxis, valueAxis } from './axes.ts'
import type { Curve, CurveChart, Series } from './chart.ts'
import { drawDots } from './dots.ts'
import { figureOf } from './figures.ts'
import { axisFont, colourOf, widthOf } from './theme.ts'
import { tooltip, type Told } from './tooltip.ts'

/** A point of all series of one curve, where there is one. */
interface Place {
  readonly x: number
  readonly curve: number
  /** In the order in which its curve was measured. */
  readonly index: number
}

/** With more, dots would hide their line. */
const mostDots = 100
/** Above the uppermost point, for its name. */
const headroom = 1.08

/** How a curve over a quantity is drawn: from left to right for uPlot, joined in the order in which it was measured. */
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
    const own = all.filter(({ number }) => number === place.curve)
    const lines = own
      .map(({ series: { name, colour, values, isDashed = false } }) => ({
        name,
        colour,
        isDashed,
        figure: figureOf(values[at] ?? null, y.unit),
      }))
      .reverse()
    return {
      title: `${nameOf(place)}${isUnstable(at) ? ' (unstable)' : ''}`,
      lines: [...lines, { name: x.label, figure: figureOf(place.x, x.unit) }],
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

/** A series of one curve beside the places of all. */
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

/** Names the places above their uppermost value and at its left, where a curve that rises has not been, as far as there is room. */
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
