/** Runs all sides in turns, there and back, so that what else the machine does meets each; what they gave, round by round. */
export async function takeTurns<Name extends string, T>(
  rounds: number,
  sides: Readonly<Record<Name, () => Promise<T>>>,
): Promise<Record<Name, T[]>> {
  const names = Object.keys(sides) as Name[]
  const found = Object.fromEntries(names.map((name) => [name, [] as T[]])) as Record<Name, T[]>
  for (let round = 0; round < rounds; round++) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) found[name].push(await sides[name]())
  }
  return found
}
