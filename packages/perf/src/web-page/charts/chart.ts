import { figureOf } from './figures.ts'

/** What a chart shows: made when the report is, drawn by the page, which has nothing else. */
export type Chart = CurveChart | LevelChart

/** What a number is of, so how it is written. */
export type Unit = 'microseconds' | 'count' | 'share' | 'bytes'

/** One of its colours, each by a custom property of the page's style, which has a light and a dark value. */
export type Colour =
  | 'p50'
  | 'p90'
  | 'p95'
  | 'p99'
  | 'p999'
  | 'max'
  | 'overhead'
  | 'queue'
  | 'input'
  | 'infer'
  | 'output'
  | 'first'
  | 'second'
  | 'third'
  | 'fourth'
  | 'fifth'
  | 'sixth'
  | 'seventh'
  | 'eighth'

export interface Axis {
  readonly label: string
  readonly unit: Unit
}

export interface ValueAxis extends Axis {
  readonly isLogarithmic: boolean
}

/** Values beside the points of its axis; `null` where there is none. */
export interface Series {
  readonly name: string
  readonly colour: Colour
  readonly values: readonly (number | null)[]
  /** Told from a series of the same colour by its dashes. */
  readonly isDashed?: boolean
  /** Which of its points did not become stable, where these are not the same for all series. */
  readonly unstable?: readonly number[]
}

/** Series over the same points. */
export interface Points {
  /** In the order in which they were measured. */
  readonly names: readonly string[]
  readonly series: readonly Series[]
  /** Which of the points did not become stable. */
  readonly unstable: readonly number[]
}

/** One measured quantity over another, in the order in which they were measured. */
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

/** Something at one place after the other, in the order in which they are given. */
export interface LevelChart {
  readonly id: string
  /** Bars stand on each other. */
  readonly shape: 'lines' | 'bars'
  readonly x: { readonly label: string }
  readonly y: ValueAxis
  /** One is shown at a time, chosen on the page. */
  readonly views: readonly View[]
}

export interface View extends Points {
  /** Of the one choice out of many. */
  readonly name: string
  /** Places between points that have a name, counted from the first point. */
  readonly marks?: readonly { readonly at: number; readonly name: string }[]
}

/** What a view shows as text: of each point its name, then its figures. */
export function rowsOf({ y }: LevelChart, { names, series }: View): string[][] {
  return names.map((name, index) => [
    name,
    ...series.map(({ values }) => figureOf(values[index] ?? null, y.unit)),
  ])
}
