import type { Colour } from '../colours.ts'
import { figureOf } from './figures.ts'

/** The data of a chart: written into the report, and drawn by the page, which has no other data. */
export type Chart = CurveChart | LevelChart

/** The quantity of a number, which determines its format. */
export type Unit = 'microseconds' | 'count' | 'share' | 'bytes'

export interface Axis {
  readonly label: string
  readonly unit: Unit
}

export interface ValueAxis extends Axis {
  readonly isLogarithmic: boolean
}

/** Values at the points of an axis; `null` where there is none. */
export interface Series {
  readonly name: string
  readonly colour: Colour
  readonly values: readonly (number | null)[]
  /** Dashes distinguish it from a series of the same colour. */
  readonly isDashed?: boolean
  /** Indices of points that were not stable, if they differ by series. */
  readonly unstable?: readonly number[]
}

/** Series over the same points. */
export interface Points {
  /** In order of measurement. */
  readonly names: readonly string[]
  readonly series: readonly Series[]
  /** Indices of points that were not stable. */
  readonly unstable: readonly number[]
}

/** One measured quantity over another, in order of measurement. */
export interface CurveChart {
  readonly id: string
  readonly shape: 'curve'
  readonly x: Axis
  readonly y: ValueAxis
  readonly curves: readonly Curve[]
}

export interface Curve extends Points {
  readonly xs: readonly (number | null)[]
}

/** Values at consecutive places, in the given order. */
export interface LevelChart {
  readonly id: string
  /** Bars are stacked. */
  readonly shape: 'lines' | 'bars'
  readonly x: { readonly label: string }
  readonly y: ValueAxis
  /** One view is shown at a time, chosen on the page. */
  readonly views: readonly View[]
}

export interface View extends Points {
  /** Name of the choice. */
  readonly name: string
  /** Named places between points, counted from the first point. */
  readonly marks?: readonly { readonly at: number; readonly name: string }[]
}

/** A view as text: the name and the figures of each point. */
export function rowsOf({ y }: LevelChart, { names, series }: View): string[][] {
  return names.map((name, index) => [
    name,
    ...series.map(({ values }) => figureOf(values[index] ?? null, y.unit)),
  ])
}
