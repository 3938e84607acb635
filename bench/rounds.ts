import { median } from './statistics.ts'

/** Runs ours and the baseline in turns, so that what else the machine does meets both; the medians of `figure`. */
export async function takeTurns<T>(
  rounds: number,
  sides: { ours: () => Promise<T>; plain: () => Promise<T> },
  figure: (result: T) => number,
): Promise<{ ours: number; plain: number; all: { ours: T[]; plain: T[] } }> {
  const all = { ours: [] as T[], plain: [] as T[] }
  for (let round = 0; round < rounds; round++) {
    all.plain.push(await sides.plain())
    all.ours.push(await sides.ours())
  }
  return { ours: median(all.ours.map(figure)), plain: median(all.plain.map(figure)), all }
}
