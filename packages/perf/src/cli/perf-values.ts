import { InvalidArgumentError } from 'commander'

/** Values of options as `zerohop perf` reads them: each of these takes the text of one and returns what it means, or says what it has to be. */

/** Callers at once, at most: each holds some memory, whatever it sends. */
export const mostCallers = 200_000

/** A whole number from `least` to `most`. */
export const whole =
  (least: number, most = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = /^[+-]?\d+$/.test(text) ? Number(text) : NaN
    if (value >= least && value <= most) return value
    throw new InvalidArgumentError(
      `It has to be a whole number ${most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`}.`,
    )
  }

/** A number above `least`, or that as well, up to `most`. */
export const above =
  (least: number, orEqual = false, most = Number.MAX_VALUE) =>
  (text: string): number => {
    const value = text.trim() === '' ? NaN : Number(text)
    if (value <= most && (value > least || (orEqual && value === least))) return value
    throw new InvalidArgumentError(
      `It has to be a number ${orEqual ? `of at least ${least}` : `above ${least}`}${most === Number.MAX_VALUE ? '' : `, and at most ${most}`}.`,
    )
  }

/** Levels that a range may have: with more, a step would be lost in the rounding of numbers, and a search would never end. */
const mostLevels = 1e9

/** `start:end:step`, of which the end is the start, and the step 1, where they are left out. */
export const range =
  (number: (text: string) => number, endMayBe0: boolean) =>
  (text: string): { start: number; end: number; step: number } => {
    const [start, end = start, step = '1', ...more] = text.split(':') as [string, string?, string?]
    if (more.length > 0)
      throw new InvalidArgumentError('It has to be start:end:step, of which end and step may be left out.')
    const found = {
      start: part('start', start, number),
      end: endMayBe0 && /^0+$/.test(end) ? 0 : part('end', end, number),
      step: part('step', step, number),
    }
    if (found.end !== 0 && found.end < found.start)
      throw new InvalidArgumentError('Its end has to be at least its start.')
    if (found.end !== found.start && Math.max(found.start, found.end) / found.step > mostLevels)
      throw new InvalidArgumentError(
        `Its step has to be larger: it leads over more than ${mostLevels} levels.`,
      )
    return found
  }

/** One part of what has several: what is wrong with it is told with its name. */
function part(name: string, text: string, read: (text: string) => number): number {
  try {
    return read(text)
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error
    throw new InvalidArgumentError(
      `Its ${name} is '${text}'. ${error.message.replace(/^It has/, 'That has')}`,
    )
  }
}

/** Whole numbers with commas between them. */
export const list =
  (least: number) =>
  (text: string): number[] =>
    text.split(',').map(whole(least))

/** Adds a value to those before: for options that may be given several times. */
export const collect =
  <T>(read: (text: string) => T) =>
  (text: string, before: readonly T[]): T[] => [...before, read(text)]

/** A bound of latency in milliseconds, as genai-perf has it (`request_latency:300`), or its number alone. */
export function goodput(text: string): number {
  const [name, value, ...more] = text.includes(':') ? text.split(':') : ['request_latency', text]
  if (name !== 'request_latency' || more.length > 0)
    throw new InvalidArgumentError(
      'It has to be request_latency:<milliseconds>: answers here have no tokens, and none of their times.',
    )
  return above(0)(value ?? '')
}

/** A share as percent, between 0 and 100, as the share of 1 that it is. */
export function share(text: string): number {
  const percent = above(0)(text)
  if (percent < 100) return percent / 100
  throw new InvalidArgumentError('It has to be a number between 0 and 100.')
}
