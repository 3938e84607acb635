import { existsSync, readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import type { Plan } from './plan.ts'
import type { Unit } from './result.ts'

/** What has been measured, so that a run can go on where another was ended. */
export interface State {
  readonly units: Unit[]
}

/** From a result's file. One of another plan is refused: its figures do not belong to the same table. */
export function readState(file: string | undefined, plan: Plan): State {
  if (file === undefined || !existsSync(file)) return { units: [] }
  const { details } = JSON.parse(readFileSync(file, 'utf8')) as { details?: { plan: Plan; units: Unit[] } }
  if (details === undefined || !isDeepStrictEqual(details.plan, plan)) {
    throw new Error(`${file} holds results of another plan (${JSON.stringify(details?.plan)}): give another file, or --fresh to write over it`)
  }
  return { units: details.units }
}
