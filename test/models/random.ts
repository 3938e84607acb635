import type { Random } from '../../src/base/numbers.ts'

export { mulberry32, type Random } from '../../src/base/numbers.ts'

/** `count` numbers evenly spread in [-limit, limit). */
export function uniform(random: Random, count: number, limit: number): Float32Array {
  const values = new Float32Array(count)
  for (let i = 0; i < count; i++) values[i] = (random() * 2 - 1) * limit
  return values
}

/**
 * Weights of `filters` filters with `fanIn` inputs each, in the scale that He et al. give for layers behind a ReLU.
 * Each filter is then centred on 0: without that, the positive mean of ReLU outputs grows from layer to layer until a
 * deep network answers every input alike.
 */
export function heWeights(random: Random, filters: number, fanIn: number): Float32Array {
  const weights = uniform(random, filters * fanIn, Math.sqrt(6 / fanIn))
  for (let filter = 0; filter < filters; filter++) {
    const row = weights.subarray(filter * fanIn, (filter + 1) * fanIn)
    let sum = 0
    for (let i = 0; i < fanIn; i++) sum += row[i]!
    const mean = sum / fanIn
    for (let i = 0; i < fanIn; i++) row[i]! -= mean
  }
  return weights
}
