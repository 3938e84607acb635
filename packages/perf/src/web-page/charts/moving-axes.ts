import type uPlot from 'uplot'
import { plainAxis, tickGap } from './axes.ts'
import type { Unit } from './chart.ts'
import { roundTimeOf, tickOf } from './figures.ts'
import { widthOf } from './theme.ts'
import { linearTicks } from './ticks.ts'

const nameHeight = 30
const valueTicks = 5
/** Parts that the shown time is divided into. */
const timeTicks = 4

/** Upwards, with round numbers for whatever is shown at the time. */
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
    incrs: () => [ticks.max - ticks.min], // else uPlot looks for one of its own, and draws nothing without
    space: 1,
    size: (_, names) => Math.ceil(Math.max(0, ...(names ?? []).map(widthOf))) + tickGap + 4,
    splits: () => [...ticks.at],
    filter: (_, splits) => splits,
    values: (_, splits) => splits.map((tick) => tickOf(tick, unit)),
  }
  return { axis, scale: { time: false, range } }
}

/** The last `seconds` up to the end of what is shown, in seconds since the epoch. */
export function lastSecondsAxis(
  seconds: number,
  end: () => number,
): { axis: uPlot.Axis; scale: uPlot.Scale } {
  const agos = Array.from(
    { length: timeTicks + 1 },
    (_, index) => (seconds * (timeTicks - index)) / timeTicks,
  )
  const axis: uPlot.Axis = {
    ...plainAxis(),
    size: nameHeight,
    incrs: () => [seconds],
    space: 1,
    grid: { show: false },
    splits: () => agos.map((ago) => end() - ago),
    filter: (_, splits) => splits,
    values: () => agos.map((ago) => (ago === 0 ? 'now' : `-${roundTimeOf(ago * 1e6)}`)),
  }
  return { axis, scale: { time: false, range: () => [end() - seconds, end()] } }
}
