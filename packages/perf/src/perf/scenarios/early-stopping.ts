/*
 * LoadGen's early stopping (early_stopping.cc): how many queries it takes to say, with a confidence of 99 %, that a
 * percentile of a system's latency is under a bound, when some of the queries were over it. What LoadGen computes by a
 * hypergeometric series is the lower tail of a binomial distribution; here it is summed as such, which takes as little
 * time for millions of queries as for hundreds.
 */

const confidence = 0.99

/** The smallest share of a sum that still matters to it. */
const negligible = 2 ** -50

/** Whether so many queries over a bound, among all of a run, still tell that the bound holds for the percentile. */
export function isEnough(queryCount: number, overCount: number, percentile: number): boolean {
  return lowerTail(queryCount, overCount, 1 - percentile) < 1 - confidence
}

/** How many queries under the bound it takes, when so many are over it. */
export function minPassingQueries(overCount: number, percentile: number): number {
  let enough = 1
  while (!isEnough(enough + overCount, overCount, percentile)) enough *= 2
  let tooFew = Math.floor(enough / 2)
  while (enough - tooFew > 1) {
    const middle = Math.floor((tooFew + enough) / 2)
    if (isEnough(middle + overCount, overCount, percentile)) enough = middle
    else tooFew = middle
  }
  return enough
}

/**
 * What early stopping makes of the latencies of a run: an estimate of the percentile that is on the safe side, the
 * smallest latency such that those above it are few enough. `null` with fewer queries than any estimate takes.
 *
 * @param ascending latencies of all queries, in any unit.
 */
export function estimatePercentile(
  ascending: ArrayLike<number>,
  percentile: number,
): { readonly estimate: number; readonly discarded: number } | null {
  const count = ascending.length
  if (!isEnough(count, 1, percentile)) return null
  let over = 1
  let tooMany = count
  while (tooMany - over > 1) {
    const middle = Math.floor((over + tooMany) / 2)
    if (isEnough(count, middle, percentile)) over = middle
    else tooMany = middle
  }
  return { estimate: ascending[count - over]!, discarded: over - 1 }
}

/** The probability of at most `most` events among `count`, each of which comes with `probability`. */
function lowerTail(count: number, most: number, probability: number): number {
  if (most >= count) return 1
  // At the mean or above it is about a half, or more; the sum below would be a long one.
  if (most >= count * probability) return 1
  let sum = 1
  let term = 1
  for (let events = most; events > 0; events--) {
    term *= (events * (1 - probability)) / ((count - events + 1) * probability)
    sum += term
    if (term < sum * negligible) break
  }
  const logOfMost =
    logChoose(count, most) + most * Math.log(probability) + (count - most) * Math.log1p(-probability)
  return Math.exp(logOfMost + Math.log(sum))
}

const logChoose = (count: number, chosen: number) =>
  logFactorial(count) - logFactorial(chosen) - logFactorial(count - chosen)

/** Stirling's series, exact to the last places from 10 on; below it is counted out. */
function logFactorial(n: number): number {
  if (n < 10) {
    let product = 1
    for (let factor = 2; factor <= n; factor++) product *= factor
    return Math.log(product)
  }
  const x = n + 1
  const inverse = 1 / x
  const square = inverse * inverse
  const tail = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + tail
}
