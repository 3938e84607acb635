import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { DecodersMs } from './decoders.ts'
import type { Versions } from './peer.ts'
import type { Plan } from './plan.ts'
import type { Unit } from './result.ts'

/** What has been measured, so that a run can go on where another was ended. */
export interface State {
  readonly units: Unit[]
  /** Of the peers that were set up, and why others were not. */
  readonly versions: Readonly<Record<string, Versions>>
  readonly missing: Readonly<Record<string, string>>
  readonly decodersMs?: DecodersMs
}

interface Kept {
  readonly settings?: Partial<Omit<State, 'units'>>
  readonly details?: { readonly plan: Plan; readonly units: Unit[] }
}

/** From a result's file. One of another plan is refused: its figures do not belong to the same table. */
export function readState(file: string | undefined, plan: Plan): State {
  if (file === undefined || !existsSync(file)) return { units: [], versions: {}, missing: {} }
  const { details, settings: { versions = {}, missing = {}, decodersMs } = {} } = parsed(file)
  if (details === undefined || !isDeepStrictEqual(details.plan, plan)) {
    throw new Error(
      `${file} holds results of another plan (${JSON.stringify(details?.plan)}): give another file, or --fresh to write over it`,
    )
  }
  return { units: details.units, versions, missing, ...(decodersMs === undefined ? {} : { decodersMs }) }
}

function parsed(file: string): Kept {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Kept
  } catch (error) {
    throw new Error(
      `${file} holds no results (${(error as Error).message}): give another file, or --fresh to write over it`,
    )
  }
}

/** Makes sure, before hours are spent, that a file can be written; its folder is made. @throws Error that says why not. */
export function checkWritable(file: string): void {
  mkdirSync(dirname(file), { recursive: true })
  accessSync(dirname(file), constants.W_OK)
  if (existsSync(file) && statSync(file).isDirectory()) throw new Error(`${file} is a folder`)
}

/** Writes a file as a whole, or leaves the one before. */
export function writeWhole(file: string, text: string): void {
  const unfinished = `${file}.${process.pid}.tmp`
  writeFileSync(unfinished, text)
  renameSync(unfinished, file)
}
