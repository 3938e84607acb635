/** The shown part of an axis, and its marks. */
export interface Ticks {
  readonly min: number
  readonly max: number
  readonly at: readonly number[]
}

const mostMarks = 11

/** From 0 to a round number at or above the largest value, in about `count` round steps. */
export function linearTicks(values: readonly (number | null)[], count: number): Ticks {
  const shown = values.filter((value) => value !== null)
  const largest = shown.reduce((a, b) => Math.max(a, b), 0)
  const top = largest > 0 ? largest : 1
  const rawStep = top / count
  const power = 10 ** Math.floor(Math.log10(rawStep))
  const roundStep = power * [1, 2, 5, 10].find((factor) => factor * power >= rawStep * 0.999)!
  const step = shown.every(Number.isInteger) ? Math.max(1, roundStep) : roundStep
  const steps = Math.max(1, Math.ceil(top / step - 1e-3))
  const at = Array.from({ length: steps + 1 }, (_, index) => Number((index * step).toPrecision(12)))
  return { min: 0, max: at.at(-1)!, at }
}

/**
 * From a round number at or below the smallest positive value to one at or above the largest; marked by
 * factors of 2 to 2.5, of 10 or more.
 */
export function logarithmicTicks(values: readonly (number | null)[]): Ticks {
  const shown = values.filter((value) => value !== null && value > 0) as number[]
  const smallest = shown.reduce((a, b) => Math.min(a, b), Infinity)
  const largest = shown.reduce((a, b) => Math.max(a, b), 0)
  if (largest === 0) return { min: 1, max: 10, at: [1, 10] }
  const from = Math.floor(Math.log10(smallest))
  const powers = Array.from(
    { length: Math.ceil(Math.log10(largest)) - from + 2 },
    (_, index) => 10 ** (from + index),
  )
  const steps = powers.flatMap((power) => [power, 2 * power, 5 * power])
  const min = steps.findLast((step) => step <= smallest) ?? smallest
  const max = steps.find((step) => step >= largest && step > min) ?? largest
  const inside = (at: readonly number[]) => at.filter((step) => step >= min && step <= max)
  if (inside(steps).length <= mostMarks) return { min, max, at: inside(steps) }
  const every = Math.ceil(inside(powers).length / mostMarks)
  return { min, max, at: inside(powers).filter((_, index) => index % every === 0) }
}

/** Lengths of a time axis that grows, as shares of its full length. */
const growth = [0.1, 0.2, 0.5, 1]

/** The length of a time axis on which so much time is shown: short at first, so that it is never nearly empty. */
export function grownLength(full: number, shown: number): number {
  return full * (growth.find((share) => share * full >= shown) ?? 1)
}
