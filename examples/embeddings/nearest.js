/** The `count` vectors nearest to one, the nearest first, by the cosine of their angle: of vectors of length 1 it is the product. */
export function nearest(vectors, to, count) {
  const cosine = (vector) => vector.reduce((sum, value, place) => sum + value * to[place], 0)
  return vectors
    .map((vector, index) => ({ index, cosine: cosine(vector) }))
    .toSorted((a, b) => b.cosine - a.cosine)
    .slice(0, count)
}
