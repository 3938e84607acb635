import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { cpus } from 'node:os'
import { basename, dirname, join } from 'node:path'
import {
  availableCores,
  ExternalFiles,
  hashOfFile,
  installedVersion,
  invalidArgument,
  libraryVersion,
  packageFolder,
} from 'zerohop/internals'
import { ownFolder } from '../own-files.ts'
import { isMadeUp } from '../perf/input/generated-data.ts'
import type { CalibrationPoint } from './calibrate.ts'
import type { Candidate, Configuration } from './configuration.ts'
import type { Measurement } from './outcome.ts'
import type { TuneSettings } from './tune-settings.ts'

/** How a model is loaded without the options that the tuner varies. */
export interface DefaultFacts {
  readonly configuration: Configuration
  readonly isOnCpu: boolean
  /** Why requests share runs, or do not. */
  readonly joining: string
}

/** A candidate's measurement, or why it failed, and how many more measurements there was time for then. */
interface RecordedShowing {
  readonly key: string
  readonly measurement: Measurement | null
  readonly failure: string | null
  readonly affordable: number
}

/** One contest: its candidates, the default first, and their measurements so far, in order. */
export interface RecordedContest {
  readonly candidates: readonly Candidate[]
  readonly showings: RecordedShowing[]
}

/** Everything that was measured. */
export interface TuneState {
  /** What the figures depend on: the model, the machine, versions, and the requests. */
  readonly fingerprint: Readonly<Record<string, string>>
  defaults: DefaultFacts | null
  readonly calibration: CalibrationPoint[]
  /**
   * Completed calibrations: by search space, the budget in milliseconds in which everything was calibrated
   * that there was time for.
   */
  readonly calibratedInMs: Record<string, number>
  /** By goal. The first contest of each has only the default. */
  readonly contests: Record<string, RecordedContest[]>
}

const format = 3
/** The beginning of every state file. */
const beginning = '{"format":'

/** An empty state. */
export function newState(fingerprint: TuneState['fingerprint']): TuneState {
  return { fingerprint, defaults: null, calibration: [], calibratedInMs: {}, contests: {} }
}

/**
 * Reads the measurements of an earlier call.
 *
 * @returns with `state: null`, why there are none to continue from; `reason: null` if there was no earlier
 * call.
 * @throws InferenceError `ERR_INVALID_ARG` for any other file, which would be overwritten.
 */
function readState(
  path: string,
  fingerprint: TuneState['fingerprint'],
): { readonly state: TuneState | null; readonly reason: string | null } {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    return { state: null, reason: null }
  }
  // A truncated state file still belongs to the tuner.
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

/** Writes the state atomically: readers, and a crash, see either the old or the new state. */
function writeState(path: string, state: TuneState): void {
  const unfinished = `${path}.unfinished`
  try {
    writeFileSync(unfinished, `${JSON.stringify({ format, ...state })}\n`)
    renameSync(unfinished, path)
  } catch (error) {
    rmSync(unfinished, { force: true })
    throw error
  }
}

/** The state of one call, kept in a file for the next. */
export class KeptState {
  readonly state: TuneState
  readonly #path: string
  readonly #note: (text: string) => void
  #isKept = true

  /**
   * Opens the state of an earlier call, or an empty one.
   *
   * @param fresh whether to discard the earlier state.
   * @throws InferenceError `ERR_INVALID_ARG` for any other file; errors of writing, before any measurement is
   * lost by it.
   */
  constructor(
    path: string,
    fingerprint: TuneState['fingerprint'],
    fresh: boolean,
    note: (text: string) => void,
  ) {
    const { state, reason } = readState(path, fingerprint)
    if (!fresh && reason !== null) note(`begins anew: ${reason}`)
    if (!fresh && state !== null && state.defaults !== null)
      note(`goes on with what ${path} has: ${state.calibration.length} batch sizes calibrated`)
    this.#path = path
    this.#note = note
    this.state = fresh || state === null ? newState(fingerprint) : state
    writeState(path, this.state)
  }

  /** A file without measurements is of no use to the next call. */
  removeIfEmpty(): void {
    const { calibration, contests } = this.state
    const showings = Object.values(contests).flatMap((each) => each.flatMap((contest) => contest.showings))
    if ([...calibration, ...showings].every(({ measurement }) => measurement === null))
      rmSync(this.#path, { force: true })
  }

  /**
   * If the disk is full later, the next call loses these measurements, but this call still has its result.
   */
  save(): void {
    try {
      writeState(this.#path, this.state)
    } catch (error) {
      if (this.#isKept) this.#note(`what was measured cannot be kept: ${(error as Error).message}`)
      this.#isKept = false
    }
  }
}

let ownBuild: string | undefined

/**
 * What the figures depend on, with names that show what has changed.
 *
 * @throws errors of reading the files, and the reason of the signal.
 */
export async function fingerprintOf(
  { path, options, kind, measuring: { requests, engine } }: TuneSettings,
  signal: AbortSignal,
): Promise<Record<string, string>> {
  const { usable, machine } = availableCores()
  return {
    model: await contentHash(path, signal),
    machine: [
      process.platform,
      process.arch,
      cpus()[0]?.model.trim() ?? '',
      `${usable} of ${machine} cores`,
    ].join(', '),
    'version of zerohop': libraryVersion,
    'build of zerohop': (ownBuild ??= `${buildHash(packageFolder)}-${buildHash(ownFolder)}`),
    'version of ONNX Runtime': installedVersion() ?? 'unknown',
    'version of Node.js': process.versions.node,
    environment: JSON.stringify(
      Object.entries(process.env)
        .filter(([name]) => name.startsWith('ZEROHOP_') && name !== 'ZEROHOP_PROGRAMS')
        .sort(),
    ),
    provider: kind,
    'set of model options': JSON.stringify(options),
    'set of engine options': JSON.stringify(engine),
    'kind of request': JSON.stringify([requests, await dataHashes(requests.inputData, signal)]),
  }
}

/** Hash of a model's file and its external weights. */
async function contentHash(path: string, signal: AbortSignal): Promise<string> {
  const external = new ExternalFiles()
  const hash = createHash('sha256').update(await hashOfFile(path, signal, (piece) => external.look(piece)))
  for (const file of external.in(dirname(path)))
    hash
      .update(basename(file))
      .update(await hashOfFile(file, signal).catch(() => (signal.throwIfAborted(), 'unreadable')))
  return hash.digest('hex')
}

/** Hashes of files, including those in folders. */
async function dataHashes(inputData: readonly string[], signal: AbortSignal): Promise<string[]> {
  const hashes: string[] = []
  for (const path of inputData) {
    if (isMadeUp(path)) continue
    const files = (await stat(path)).isDirectory()
      ? (await readdir(path)).sort().map((name) => join(path, name))
      : [path]
    for (const file of files) hashes.push(await hashOfFile(file, signal))
  }
  return hashes
}

/** Hash of a package's compiled files and addons: a checkout has many builds of one version. */
export function buildHash(folder: string): string {
  const hash = createHash('sha256')
  for (const part of ['dist', 'build', 'prebuilds', 'native/build'].map((name) => join(folder, name))) {
    try {
      const files = readdirSync(part, { recursive: true, encoding: 'utf8' }).filter((file) =>
        /\.(js|node)$/.test(file),
      )
      for (const file of files.sort()) hash.update(`${file}\0`).update(readFileSync(join(part, file)))
    } catch {
      // not built
    }
  }
  return hash.digest('hex').slice(0, 12)
}
