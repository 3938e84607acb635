import type { Target } from './targets.ts'

/** How a trial is run. */
export interface TrialOptions {
  /** How long one measurement takes, in seconds. */
  readonly seconds: number
  /** How often ours and the baseline take turns. */
  readonly rounds: number
  /** A look at whether the trial runs, with little models: its figures mean nothing. */
  readonly smoke: boolean
  /** Fewer jobs, shorter loads and one round, for the trials that take long: figures that mean something, within minutes. */
  readonly quick: boolean
  /** Of the trial `jobs`. */
  readonly images: number
  /** Of the trial `soak`. */
  readonly requests: number
  /** Of the trial `latency-target`; left out, it is chosen by the model's run time. */
  readonly targetMs?: number
}

/** A line of README's numbers, as it stands there. */
export interface NumbersRow {
  readonly question: string
  /** What one has without the library. */
  readonly plain: string
  readonly zerohop: string
  /** The ratio, and what has to be known to read it. */
  readonly note: string
}

/** What a trial found. */
export interface TrialResult {
  readonly ours: number
  readonly plain: number
  /** Of both figures. */
  readonly unit: string
  /** Ours to plain. */
  readonly ratio: number
  readonly targets: readonly Target[]
  /** Rows of the table; all have the same columns. */
  readonly rows: readonly Readonly<Record<string, string | number>>[]
  /** Tables to show instead of `rows`. */
  readonly tables?: readonly { readonly title: string; readonly rows: TrialResult['rows'] }[]
  /** What the figures depend on. */
  readonly settings: Readonly<Record<string, unknown>>
  /** What README says of it; nothing where it is left out. */
  readonly numbers?: readonly NumbersRow[]
  /** Single measurements behind the figures, for the file only. */
  readonly details?: unknown
}

/** A trial cannot be run here; the message says why. */
export class TrialSkipped extends Error {
  override readonly name = 'TrialSkipped'
}

/** One question and how it is answered. */
export interface Trial {
  readonly describe: string
  /** What has to be known to read its rows: why one is not as such experiments usually show it. */
  readonly reading?: string
  /** Seconds per measurement unless the caller says otherwise; left out where a count decides. */
  readonly seconds?: number
  run(options: TrialOptions): Promise<TrialResult>
}
