import * as v from 'valibot'

/** JSON has no number for what is none. */
export const figure = v.pipe(
  v.nullable(v.number()),
  v.transform((value) => value ?? NaN),
)
export const counts = v.record(v.string(), figure)
export const batchSizes = v.array(v.object({ batchSize: figure, count: figure }))
