import { matmulSlow } from '../models/arithmetic.ts'
import * as small from '../models/small.ts'

/** The files of the models that fixtures/known-models.mjs knows the answers of. */
export function chaosModels() {
  return {
    identity: small.identity('float32'),
    variable: small.identityVariable('float32'),
    integers: small.identity('int64'),
    strings: small.identity('string'),
    rotates: matmulSlow(64, 10),
    slow: matmulSlow(256, 100),
    slower: matmulSlow(512, 200),
    mixes: small.mixesRows(),
  }
}
