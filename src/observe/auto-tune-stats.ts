/**
 * What came of a search of `autoTune`:
 *
 * - `'changed'`: another setting was better, and is in use since.
 * - `'no-gain'`: in the final turns the other setting gave no more than the one in use.
 * - `'gain-too-small'`: it gave more, but by less than 3 %.
 * - `'gain-within-noise'`: it gave more by 3 %, but not by more than the turns differ among each other.
 * - `'unavailable'`: it could not be had any more: no instance of it could be opened, two would share a worker, or memory did not suffice.
 * - `'no-other'`: no other setting could be had at all.
 */
export type AutoTuneDecision =
  | 'changed'
  | 'no-gain'
  | 'gain-too-small'
  | 'gain-within-noise'
  | 'unavailable'
  | 'no-other'

/** The end of a search: the best of the others, measured in turns with the setting that was in use. They alone decide. */
export interface AutoTuneFinalTurns {
  readonly instances: number
  readonly batchRows: number
  /** Turn by turn, how many times the rows a second of the setting that was in use it gave. Their median is what counts. */
  readonly gains: readonly number[]
}

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
  readonly tried: readonly {
    readonly instances: number
    readonly batchRows: number
    readonly rowsPerSecond: number
  }[]
  /** Why the last search that came to its end changed the settings, or kept them; `null` before one did. */
  readonly decision: AutoTuneDecision | null
  /** What it was decided by; `null` where it came to none. */
  readonly finalTurns: AutoTuneFinalTurns | null
}
