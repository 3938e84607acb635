import type uPlot from 'uplot'
import type { Axis, Unit, ValueAxis } from './chart.ts'
import { roundTimeOf, tickOf } from './figures.ts'
import { axisFont, colourOf, widthOf } from './page-elements.ts'
import { grownLength, linearTicks, logarithmicTicks, type Ticks } from './ticks.ts'

/** In CSS pixels. */
const tickGap = 8

const labelHeight = 22

const nameHeight = 30

const valueTicks = 5

/** The style of all axes. */
function plainAxis(): uPlot.Axis {
  return {
    font: axisFont,
    labelFont: axisFont,
    stroke: () => colourOf('muted'),
    gap: tickGap,
    ticks: { show: false },
    grid: { stroke: () => colourOf('grid'), width: 1 },
  }
}

/** The vertical axis with the measured values, at the left. */
export function valueAxis(
  { unit, isLogarithmic }: ValueAxis,
  values: readonly (number | null)[],
): { axis: uPlot.Axis; scale: uPlot.Scale } {
  const ticks = isLogarithmic ? logarithmicTicks(values) : linearTicks(values, valueTicks)
  const names = ticks.at.map((tick) => tickOf(tick, unit))
  const size = Math.ceil(Math.max(...names.map(widthOf))) + tickGap + 4
  const axis: uPlot.Axis = {
    ...plainAxis(),
    ...givenTicks(ticks),
    size,
    splits: () => [...ticks.at],
    filter: (_, splits) => splits,
    values: () => names,
  }
  return { axis, scale: scaleOf(ticks, isLogarithmic) }
}

/** The horizontal axis, if it is a quantity. */
export function quantityAxis(
  { label, unit }: Axis,
  values: readonly (number | null)[],
): { axis: uPlot.Axis; scale: uPlot.Scale } {
  const few = linearTicks(values, 3)
  const many = linearTicks(values, 8)
  const ticksIn = (plot: uPlot) => {
    const widest = Math.max(...many.at.map((tick) => widthOf(tickOf(tick, unit))))
    return plot.width > many.at.length * (widest + 3 * tickGap) ? many : few
  }
  const axis: uPlot.Axis = {
    ...plainAxis(),
    ...givenTicks(many),
    label,
    labelSize: labelHeight,
    size: nameHeight,
    splits: (plot: uPlot) => ticksIn(plot).at.filter((tick) => tick <= many.max),
    values: (_: uPlot, splits: number[]) => splits.map((tick) => tickOf(tick, unit)),
  }
  return { axis, scale: scaleOf(many, false) }
}

/** Names of places side by side, as many as there is room for. */
export function nameAxis(label: string, names: readonly string[]): { axis: uPlot.Axis; scale: uPlot.Scale } {
  const widest = Math.max(0, ...names.map(widthOf)) + 1.5 * tickGap
  const axis: uPlot.Axis = {
    ...plainAxis(),
    label,
    labelSize: labelHeight,
    size: nameHeight,
    grid: { show: false },
    splits: ({ bbox }) => {
      const every = Math.max(1, Math.ceil((widest * names.length * devicePixelRatio) / bbox.width))
      return names.flatMap((_, index) => (index % every === 0 ? [index] : []))
    },
    values: (_, splits) => splits.map((index) => names[index] ?? ''),
  }
  return { axis, scale: { time: false, range: [-0.5, Math.max(0.5, names.length - 0.5)] } }
}

/** Gives uPlot a step. For very large values it finds none of its own, and then draws nothing. */
function givenTicks({ min, max }: Ticks): uPlot.Axis {
  return { incrs: [max - min], space: 1 }
}

function scaleOf({ min, max }: Ticks, isLogarithmic: boolean): uPlot.Scale {
  return { time: false, distr: isLogarithmic ? 3 : 1, range: [min, max] }
}

/** Intervals that the shown time is divided into. */
const timeTicks = 4

/** A vertical axis with round numbers for the values shown at the time. */
export function movingValueAxis(
  unit: Unit,
  values: () => readonly (number | null)[],
): { axis: uPlot.Axis; scale: uPlot.Scale } {
  let ticks = linearTicks([], valueTicks)
  const range = (): [number, number] => {
    ticks = linearTicks(values(), valueTicks)
    return [ticks.min, ticks.max]
  }
  const axis: uPlot.Axis = {
    ...plainAxis(),
    incrs: () => [ticks.max - ticks.min], // otherwise uPlot may find no step, and draw nothing
    space: 1,
    size: (_, names) => Math.ceil(Math.max(0, ...(names ?? []).map(widthOf))) + tickGap + 4,
    splits: () => [...ticks.at],
    filter: (_, splits) => splits,
    values: (_, splits) => splits.map((tick) => tickOf(tick, unit)),
  }
  return { axis, scale: { time: false, range } }
}

/**
 * A time axis that ends at the last of the shown seconds. It begins short and grows with them, up to a full
 * length.
 *
 * @param shown moments in seconds since the epoch.
 */
export function growingTimeAxis(
  fullSeconds: number,
  shown: () => readonly number[],
): { axis: uPlot.Axis; scale: uPlot.Scale } {
  const end = () => shown().at(-1) ?? 0
  const length = () => grownLength(fullSeconds, end() - (shown()[0] ?? 0))
  const agos = () =>
    Array.from({ length: timeTicks + 1 }, (_, index) => (length() * (timeTicks - index)) / timeTicks)
  const axis: uPlot.Axis = {
    ...plainAxis(),
    size: nameHeight,
    incrs: () => [length()],
    space: 1,
    grid: { show: false },
    splits: () => agos().map((ago) => end() - ago),
    filter: (_, splits) => splits,
    values: () => agos().map((ago) => (ago === 0 ? 'now' : `-${roundTimeOf(ago * 1e6)}`)),
  }
  return { axis, scale: { time: false, range: () => [end() - length(), end()] } }
}
