import type uPlot from 'uplot'
import { nameAxis, valueAxis } from './axes.ts'
import type { LevelChart, View } from './chart.ts'
import { drawDots, drawMarks } from './curve-plot.ts'
import { figureOf } from './figures.ts'
import { colourOf, type Told, toldAt, tooltip } from './page-elements.ts'

const barShare = 0.72
/** In CSS pixels. */
const widestBar = 56
/** With more dots, they would hide their line. */
const mostDots = 60

/** How to draw a chart over levels, or other places side by side. */
export function levelPlot(
  chart: LevelChart,
  view: View,
): { options: Omit<uPlot.Options, 'width' | 'height'>; data: uPlot.AlignedData } {
  const { shape, x, y } = chart
  const { names, series, unstable } = view
  const isUnstable = (index: number) => unstable.includes(index)
  const isBars = shape === 'bars'
  const tops = isBars
    ? stacked(view)
    : series.map(({ values }) =>
        values.map((value) => (value !== null && (value > 0 || !y.isLogarithmic) ? value : null)),
      )
  const horizontal = nameAxis(
    x.label,
    names.map((name, index) => (isUnstable(index) ? `${name}*` : name)),
  )
  const vertical = valueAxis(y, tops.flat())

  const told = (index: number): Told | null => {
    if (index >= names.length) return null
    const total =
      isBars && series.length > 1 && y.unit !== 'share'
        ? [{ name: 'together', figure: figureOf(tops.at(-1)![index]!, y.unit) }]
        : []
    return {
      title: `${x.label}: ${names[index]}${isUnstable(index) ? ' (unstable)' : ''}`,
      lines: [...toldAt(series, index, y.unit), ...total],
    }
  }

  const options: Omit<uPlot.Options, 'width' | 'height'> = {
    axes: [horizontal.axis, vertical.axis],
    scales: { x: horizontal.scale, y: vertical.scale },
    series: [
      {},
      ...series.map(({ colour, isDashed = false }, index): uPlot.Series => ({
        stroke: () => colourOf(colour),
        fill: isBars ? () => colourOf(colour) : undefined,
        width: isBars ? 0 : 2,
        dash: isDashed ? [6, 4] : undefined,
        points: { show: false },
        spanGaps: true, // in a comparison, results may lack each other's levels
        paths: isBars ? barsBetween(tops[index - 1] ?? null, tops[index]!) : undefined,
      })),
    ],
    plugins: [tooltip(told)],
    hooks: {
      drawSeries:
        isBars || names.length > mostDots
          ? []
          : [
              (plot, index) =>
                drawDots(plot, index, series[index - 1]!, (at) =>
                  (series[index - 1]!.unstable ?? unstable).includes(at),
                ),
            ],
      draw: [(plot) => drawMarks(plot, view.marks ?? [])],
    },
  }
  return { options, data: [names.map((_, index) => index), ...tops] as uPlot.AlignedData }
}

/** The upper end of each bar. */
function stacked({ names, series }: View): number[][] {
  const sums = names.map(() => 0)
  return series.map(({ values }) => values.map((value, index) => (sums[index]! += value ?? 0)))
}

function barsBetween(
  bottoms: readonly (number | null)[] | null,
  tops: readonly (number | null)[],
): uPlot.Series.PathBuilder {
  return (plot, _, from, to) => {
    const slot = plot.valToPos(1, 'x', true) - plot.valToPos(0, 'x', true)
    const width = Math.max(1, Math.min(barShare * slot, widestBar * devicePixelRatio))
    const fill = new Path2D()
    for (let index = from; index <= to; index++) {
      const bottom = plot.valToPos(bottoms?.[index] ?? 0, 'y', true)
      const top = plot.valToPos(tops[index] ?? 0, 'y', true)
      fill.rect(plot.valToPos(index, 'x', true) - width / 2, top, width, bottom - top)
    }
    return { fill, stroke: null }
  }
}
