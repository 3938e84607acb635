/** What `autoTune` has found out; see {@link ModelOptions.autoTune}. */
export interface AutoTuneStatistics {
  /** `'watching'`: the settings below are in use. `'searching'`: others are being tried, each for a moment. */
  readonly state: 'watching' | 'searching'
  /** Instances that are in use while nothing is tried. */
  readonly instances: number
  /** Rows that a batch may have meanwhile; 1 where requests are not joined. */
  readonly batchRows: number
  /** Searches that came to their end. */
  readonly searchCount: number
  /** What the last of them tried, best first, and the rows a second that each gave. */
  readonly tried: readonly { readonly instances: number; readonly batchRows: number; readonly rowsPerSecond: number }[]
}
