/** How a trial is run. */
export interface TrialOptions {
  /** How long one measurement takes, in seconds. */
  readonly seconds: number
  /** How often ours and the baseline take turns. */
  readonly rounds: number
  /** A look at whether the trial runs, not at its figures. */
  readonly smoke: boolean
  readonly images: number
  readonly requests: number
}

/** What a trial found. */
export interface TrialResult {
  readonly ours: number
  readonly plain: number
  readonly unit: string
  /** The figure the target is about: a ratio for most trials. */
  readonly ratio: number
  readonly target: string
  readonly met: boolean
  /** Rows of the table; all have the same columns. */
  readonly rows: readonly Readonly<Record<string, string | number>>[]
  /** Settings that the figures depend on. */
  readonly settings: Readonly<Record<string, unknown>>
}

/** One question and how it is answered. */
export interface Trial {
  readonly describe: string
  /** Seconds per measurement unless the caller says otherwise. */
  readonly seconds: number
  run(options: TrialOptions): Promise<TrialResult>
}
