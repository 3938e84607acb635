import { describe, expect, it } from 'vitest'
import { seldomSizes } from '../../src/simulation/service-times.ts'

const runs = [
  [1, 20],
  [2, 3],
  [5, 1],
].flatMap(([rows, count]) => Array.from({ length: count! }, () => ({ rows: rows! })))

describe('the sizes of predicted batches', () => {
  it('are counted by whether they ran, and often enough', () => {
    expect(seldomSizes(runs, { batches: { 1: 3, 2: 2, 5: 4, 8: 6 } })).toEqual({
      batches: 15,
      neverRan: 6,
      seldomRan: 4,
      isTrusted: false,
    })
  })

  it('are trusted up to a tenth of the batches', () => {
    expect(seldomSizes(runs, { batches: { 1: 18, 5: 1, 8: 1 } }).isTrusted).toBe(true)
    expect(seldomSizes(runs, { batches: { 1: 17, 5: 1, 8: 1 } }).isTrusted).toBe(false)
  })
})
