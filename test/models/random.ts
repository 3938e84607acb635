/** A source of numbers in [0, 1). */
export type Random = () => number

/** The mulberry32 generator: small, fast, and the same on every machine for the same seed. */
export function mulberry32(seed: number): Random {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

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
