import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { mulberry32 } from '../../test/models/random.ts'
import type { Level, WorkloadName } from './workload.ts'

type OpenLevel = Level & { readonly ratePerSecond: number }

/** Requests that are meant to come within the window of an open loop. */
export const arrivalsWithin = ({ ratePerSecond, seconds }: OpenLevel): number =>
  Math.round(ratePerSecond * seconds)

/**
 * When requests of an open loop are meant to come, in milliseconds since its warm-up began: a Poisson process of which it is given how
 * many come. So they are as many for all rounds and generators, and at the same times for all peers of a round.
 */
export function arrivalsOf(workload: WorkloadName, round: number, level: OpenLevel): Float64Array {
  const { ratePerSecond, warmupSeconds } = level
  const seed = createHash('sha256').update(`${workload} ${ratePerSecond} ${round}`).digest().readUInt32LE()
  const random = mulberry32(seed)
  // 32 bits are too few to keep times apart from each other.
  const within = (count: number, fromMs: number, lengthMs: number) =>
    Array.from({ length: count }, () => fromMs + (random() + random() / 2 ** 32) * lengthMs)
  const [warmupMs, windowMs] = [warmupSeconds * 1000, level.seconds * 1000]
  return Float64Array.from([
    ...within(Math.round(ratePerSecond * warmupSeconds), 0, warmupMs),
    ...within(arrivalsWithin(level), warmupMs, windowMs),
  ]).sort()
}

/** Writes the times of open loops into files (float64, little-endian), which the generators of all languages read. */
export function withArrivals(
  workload: WorkloadName,
  round: number,
  levels: readonly Level[],
  folder: string,
): Level[] {
  return levels.map((level, index) => {
    if (!isOpen(level)) return level
    const arrivals = join(folder, `arrivals-${index}`)
    writeFileSync(arrivals, new Uint8Array(arrivalsOf(workload, round, level).buffer))
    return { ...level, arrivals }
  })
}

export const isOpen = (level: Level): level is OpenLevel => level.ratePerSecond !== undefined
