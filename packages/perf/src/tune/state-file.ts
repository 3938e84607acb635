import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { invalidArgument } from 'zerohop/internals'
import type { CalibrationPoint } from './batch-times.ts'
import type { Candidate, Configuration } from './configuration.ts'
import type { Measurement } from './measurement.ts'

/** What a model is loaded with when nothing is said of what the tuner varies. */
export interface DefaultFacts {
  readonly configuration: Configuration
  readonly isOnCpu: boolean
  /** Why requests share runs, or do not. */
  readonly joining: string
}

/** What a candidate showed, or why it failed, and how many more measurements there was time for then. */
interface RecordedShowing {
  readonly key: string
  readonly measurement: Measurement | null
  readonly failure: string | null
  readonly affordable: number
}

/** One contest: who takes part, the default first, and what they showed so far, in its order. */
export interface RecordedContest {
  readonly candidates: readonly Candidate[]
  readonly showings: RecordedShowing[]
}

/** All that was measured. */
export interface TuneState {
  /** Of what figures depend on: the model, the machine, versions, and what requests are made of. */
  readonly fingerprint: Readonly<Record<string, string>>
  defaults: DefaultFacts | null
  readonly calibration: CalibrationPoint[]
  /** Of which search spaces everything was calibrated that there was time for, and in which budget, in milliseconds. */
  readonly calibratedInMs: Record<string, number>
  /** By what was asked for. The first of each has the default alone. */
  readonly contests: Record<string, RecordedContest[]>
}

const format = 3
/** All of them begin so. */
const beginning = '{"format":'

/** A state with nothing in it. */
export function newState(fingerprint: TuneState['fingerprint']): TuneState {
  return { fingerprint, defaults: null, calibration: [], calibratedInMs: {}, contests: {} }
}

/**
 * What an earlier call has measured.
 *
 * @returns with `state: null`, why there is nothing to go on from; `reason: null` where there never was.
 * @throws InferenceError `ERR_INVALID_ARG` for somebody else's file, which would be overwritten.
 */
export function readState(
  path: string,
  fingerprint: TuneState['fingerprint'],
): { readonly state: TuneState | null; readonly reason: string | null } {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    return { state: null, reason: null }
  }
  // One that was cut off is still ours.
  if (!text.startsWith(beginning.slice(0, text.length)))
    throw invalidArgument('state', 'a file of zerohop tune, or none', path, {
      hint: 'Name another one; this is left as it is',
    })
  try {
    const { format: itsFormat, ...state } = JSON.parse(text) as TuneState & { format: number }
    if (itsFormat !== format) return { state: null, reason: `${path} is of another version` }
    const changed = Object.keys(fingerprint).filter((name) => state.fingerprint[name] !== fingerprint[name])
    if (changed.length > 0)
      return {
        state: null,
        reason: state.defaults === null ? null : `another ${changed.join(' and ')} than that of ${path}`,
      }
    return { state, reason: null }
  } catch {
    return { state: null, reason: `${path} was cut off` }
  }
}

/** Writes what was measured: whoever reads it, or ends this process, finds the old state or the new one. */
export function writeState(path: string, state: TuneState): void {
  const unfinished = `${path}.unfinished`
  try {
    writeFileSync(unfinished, `${JSON.stringify({ format, ...state })}\n`)
    renameSync(unfinished, path)
  } catch (error) {
    rmSync(unfinished, { force: true })
    throw error
  }
}
