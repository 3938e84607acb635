/** A figure as README gives it: three digits that count, four from 1000 on, thousands apart. */
export function shown(value: number): string {
  const rounded = Number(value.toPrecision(Math.abs(value) >= 1000 ? 4 : 3))
  const [whole, fraction] = String(rounded).split('.')
  const grouped = whole!.replaceAll(/\B(?=(\d{3})+$)/g, ' ')
  return fraction === undefined ? grouped : `${grouped}.${fraction}`
}

/** Several of one unit, which is told once. */
export function shownAll(values: readonly number[], unit: string): string {
  const inThousands = values.every((value) => value >= 10_000)
  return `${values.map((value) => shown(inThousands ? Number((value / 1000).toPrecision(3)) : value)).join(', ')}${inThousands ? ' thousand' : ''} ${unit}`
}

/** From the least to the most, or the one there is. */
export function shownRange(values: readonly number[], unit: string): string {
  const [least, most] = [shown(Math.min(...values)), shown(Math.max(...values))]
  return least === most ? `${least} ${unit}` : `${least} to ${most} ${unit}`
}
