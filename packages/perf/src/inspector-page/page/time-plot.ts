import type uPlotClass from 'uplot'
import { figureOf } from '../../web-page/charts/figures.ts'
import { growingTimeAxis, movingValueAxis } from '../../web-page/charts/axes.ts'
import { colourOf, sizeOf, type Told, tooltip } from '../../web-page/charts/page-elements.ts'
import { keptFrames, type LiveChart, type Moment } from './live-charts.ts'

declare const uPlot: typeof uPlotClass

const dayTime = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' })

/** A chart that moves with time. */
export class TimePlot {
  readonly #place: HTMLElement
  readonly #chart: LiveChart
  readonly #plot: uPlotClass
  /** By series, the values before stacking. */
  #values: (number | null)[][] = []
  #tops: (number | null)[][] = []
  #seconds: number[] = []

  constructor(place: HTMLElement, chart: LiveChart, intervalMs: number) {
    this.#place = place
    this.#chart = chart
    const horizontal = growingTimeAxis((keptFrames * intervalMs) / 1000, () => this.#seconds)
    const vertical = movingValueAxis(chart.unit, () => this.#tops.flat())
    const isAreas = chart.shape === 'areas'
    // Areas are drawn from the top one down, each over the one before.
    const drawn = isAreas ? chart.series.toReversed() : chart.series
    this.#plot = new uPlot(
      {
        ...sizeOf(place),
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        axes: [horizontal.axis, vertical.axis],
        scales: { x: horizontal.scale, y: vertical.scale },
        series: [
          {},
          ...drawn.map(({ colour }): uPlotClass.Series => ({
            stroke: () => colourOf(colour),
            fill: isAreas ? () => colourOf(colour) : undefined,
            width: isAreas ? 1 : 2,
            points: {
              show: true,
              size: 5,
              width: 0,
              fill: () => colourOf(colour),
              filter: (plot, index) => alone(plot.data[index]!),
            },
          })),
        ],
        plugins: [tooltip((index) => this.#told(index))],
      },
      [[], ...drawn.map(() => [])],
      place,
    )
  }

  show(moments: readonly (Moment | null)[]): void {
    const { series, shape } = this.#chart
    this.#seconds = secondsOf(moments)
    this.#values = series.map((each) => moments.map((moment) => moment && each.of(moment)))
    this.#tops = shape === 'areas' ? stacked(this.#values) : this.#values
    const drawn = shape === 'areas' ? this.#tops.toReversed() : this.#tops
    this.#plot.setData([this.#seconds, ...drawn] as uPlotClass.AlignedData)
  }

  /** Adapts to the width of its place. */
  resize(): void {
    this.#plot.setSize(sizeOf(this.#place))
  }

  /** Redraws in the page's current colours. */
  redraw(): void {
    this.#plot.redraw(false)
  }

  /** Moves the cursor by so many moments; `null` removes it. */
  step(by: number | null): void {
    const last = this.#seconds.length - 1
    if (by === null || last < 0) return this.#plot.setCursor({ left: -10, top: -10 })
    const before = (this.#plot.cursor.left ?? -1) >= 0 ? (this.#plot.cursor.idx ?? last) : last - by
    const at = this.#seconds[Math.max(0, Math.min(last, before + by))]!
    this.#plot.setCursor({ left: this.#plot.valToPos(at, 'x'), top: 0 })
  }

  #told(index: number): Told | null {
    const at = this.#seconds[index]
    if (at === undefined) return null
    const { series, unit } = this.#chart
    const lines = series.map(({ name, colour }, which) => ({
      name,
      colour,
      figure: figureOf(this.#values[which]![index] ?? null, unit),
    }))
    return {
      title: dayTime.format(at * 1000),
      lines: this.#chart.shape === 'areas' ? lines.reverse() : lines,
    }
  }
}

/** Indices of isolated values: a line there has no length, so they need a point. */
function alone(values: uPlotClass.AlignedData[number]): number[] {
  const isThere = (at: number) => values[at] !== null && values[at] !== undefined
  return Array.from(values, (_, at) => at).filter((at) => isThere(at) && !isThere(at - 1) && !isThere(at + 1))
}

/** Times in seconds. A missing moment is placed just before the next one. */
function secondsOf(moments: readonly (Moment | null)[]): number[] {
  return moments.map(
    (moment, index) => (moment === null ? moments[index + 1]!.frame.atMs - 1 : moment.frame.atMs) / 1000,
  )
}

/** The upper edges of stacked areas. */
function stacked(values: readonly (number | null)[][]): (number | null)[][] {
  const sums = new Map<number, number>()
  return values.map((row) =>
    row.map((value, index) => {
      if (value === null) return null
      const sum = (sums.get(index) ?? 0) + value
      sums.set(index, sum)
      return sum
    }),
  )
}
