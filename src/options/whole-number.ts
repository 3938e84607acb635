import * as v from 'valibot'

/** Schema of a whole number. */
export const wholeNumber = (minimum: number, maximum = 2 ** 31 - 1) =>
  v.pipe(v.number(), v.integer('a whole number'), v.minValue(minimum), v.maxValue(maximum))
