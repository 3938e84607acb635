import { rmSync } from 'node:fs'
import { newState, readState, writeState, type TuneState } from './state-file.ts'

/** What one call knows, in its file for the next one. */
export class KeptState {
  readonly state: TuneState
  readonly #path: string
  readonly #note: (text: string) => void
  #isKept = true

  private constructor(path: string, state: TuneState, note: (text: string) => void) {
    this.#path = path
    this.state = state
    this.#note = note
  }

  /**
   * What an earlier call has left, or nothing.
   *
   * @param fresh whether that is forgotten.
   * @throws InferenceError `ERR_INVALID_ARG` for somebody else's file; what writing throws, while nothing is lost by it.
   */
  static open(
    path: string,
    fingerprint: TuneState['fingerprint'],
    fresh: boolean,
    note: (text: string) => void,
  ): KeptState {
    const { state, reason } = readState(path, fingerprint)
    const known = fresh ? null : state
    if (!fresh && reason !== null) note(`begins anew: ${reason}`)
    if (known !== null && known.defaults !== null)
      note(`goes on with what ${path} has: ${known.calibration.length} batch sizes calibrated`)
    const kept = new KeptState(path, known ?? newState(fingerprint), note)
    writeState(path, kept.state)
    return kept
  }

  /** Of no use to the next call is a file in which nothing was measured. */
  removeIfEmpty(): void {
    const { calibration, contests } = this.state
    const showings = Object.values(contests).flatMap((each) => each.flatMap((contest) => contest.showings))
    if ([...calibration, ...showings].every(({ measurement }) => measurement === null))
      rmSync(this.#path, { force: true })
  }

  /** A disk that is full later costs the next call what this one knows, and not this one its result. */
  save(): void {
    try {
      writeState(this.#path, this.state)
    } catch (error) {
      if (this.#isKept) this.#note(`what was measured cannot be kept: ${(error as Error).message}`)
      this.#isKept = false
    }
  }
}
