import { farIdsUnfollowed } from '../models/particular-rows.ts'
import { matmulMany } from '../models/arithmetic.ts'
import { identity, identityVariable, matmulLoop, matmulSlow, squared } from '../models/small.ts'

/** Paths of the models that the fixtures load, by the names they know them under. */
export function models() {
  return {
    small: identity('float32'),
    /** Rows of half a MB. */
    wide: identity('float32', [147_456]),
    /** Rows of any length. */
    variable: identityVariable('float32'),
    /** 32 rows of 1024 take fifty milliseconds or more. */
    slow: matmulLoop(1024, 50),
    /** x [n, n] by itself: one operator, which takes as long as n says. */
    squared: squared(),
    /** Takes a quarter of a second or more to open. */
    slowToOpen: matmulSlow(512, 500),
    /** 4 MB of weights. */
    large: matmulMany(512, 4),
    /** 64 MB of weights. */
    weights: matmulMany(512, 64),
    /** No made-up row can be run, and nothing is proved. */
    ids: farIdsUnfollowed().path,
  }
}
