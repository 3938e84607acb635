/** What both sides gave, round by round. */
export interface Rounds<T> {
  readonly ours: readonly T[]
  readonly plain: readonly T[]
}

/** Runs the baseline and ours in turns, so that what else the machine does meets both. */
export async function takeTurns<T>(rounds: number, plain: () => Promise<T>, ours: () => Promise<T>): Promise<Rounds<T>> {
  const all = { ours: [] as T[], plain: [] as T[] }
  for (let round = 0; round < rounds; round++) {
    all.plain.push(await plain())
    all.ours.push(await ours())
  }
  return all
}
