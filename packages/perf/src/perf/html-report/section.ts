import type { Chart } from '../../web-page/charts/chart.ts'

/** A part of the page under a heading of its own. */
export interface Section {
  readonly id: string
  readonly title: string
  /** What is shown and how to read it, in a sentence or two. */
  readonly lead: string
  readonly parts: readonly Part[]
  /** Its charts show one level at a time, which is chosen at the top. */
  readonly choices?: readonly string[]
  /** The one that is chosen at first. */
  readonly chosen?: number
}

/** A chart with its figures as text, or these alone. */
export interface Part {
  /** Above the chart; left out where the section's heading says it. */
  readonly title?: string
  readonly chart?: Chart
  readonly table: Table
}

/** Columns of text, of which the first names the row. */
export interface Table {
  readonly caption: string
  readonly columns: readonly string[]
  readonly rows: readonly (readonly Cell[])[]
  /** It is shown without being asked for. */
  readonly isOpen?: boolean
}

export type Cell = string | { readonly text: string; readonly warning: string }
