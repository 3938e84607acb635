import { InvalidArgumentError } from 'commander'

/** Values of options as `zerohop perf` reads them: each of these takes the text of one and returns what it means, or says what it has to be. */

/** A whole number from `least` to `most`. */
export const whole = (least: number, most = Number.MAX_SAFE_INTEGER) => (text: string): number => {
  const value = /^[+-]?\d+$/.test(text) ? Number(text) : NaN
  if (value >= least && value <= most) return value
  throw new InvalidArgumentError(`It has to be a whole number ${most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`}.`)
}

/** A number above `least`, or that as well. */
export const above = (least: number, orEqual = false) => (text: string): number => {
  const value = text.trim() === '' ? NaN : Number(text)
  if (Number.isFinite(value) && (value > least || (orEqual && value === least))) return value
  throw new InvalidArgumentError(`It has to be a number ${orEqual ? `of at least ${least}` : `above ${least}`}.`)
}

/** `start:end:step`, of which the end is the start, and the step 1, where they are left out. */
export const range = (number: (text: string) => number, endMayBe0: boolean) => (text: string): { start: number; end: number; step: number } => {
  const [start, end = start, step = '1', ...more] = text.split(':') as [string, string?, string?]
  if (more.length > 0) throw new InvalidArgumentError('It has to be start:end:step, of which end and step may be left out.')
  const found = { start: number(start), end: endMayBe0 && Number(end) === 0 ? 0 : number(end), step: number(step) }
  if (found.end !== 0 && found.end < found.start) throw new InvalidArgumentError('Its end has to be at least its start.')
  return found
}

/** Whole numbers with commas between them. */
export const list = (least: number) => (text: string): number[] => text.split(',').map(whole(least))

/** Adds a value to those before: for options that may be given several times. */
export const collect = <T>(read: (text: string) => T) => (text: string, before: readonly T[]): T[] => [...before, read(text)]
