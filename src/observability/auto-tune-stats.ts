/** What `autoTune` has found out; see {@link ModelOptions.autoTune}. */
export interface AutoTuneStatistics {
  /** `'watching'`: the settings below are kept. `'searching'`: several are being tried, each for a moment. */
  readonly state: 'watching' | 'searching'
  /** Instances that are in use now; while it searches, those of the setting that is tried. */
  readonly instances: number
  /** Rows that a batch may have now, likewise; 1 where requests are not joined. */
  readonly batchRows: number
  /** Searches that came to their end. */
  readonly searchCount: number
  /** What the last search has tried, or the one that goes on has tried so far, best first, and the rows a second that each gave: the median of its measurements. */
  readonly tried: readonly { readonly instances: number; readonly batchRows: number; readonly rowsPerSecond: number }[]
}
