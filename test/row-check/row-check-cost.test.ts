import { describe, expect, it } from 'vitest'
import { floatTolerance } from '../../src/schedule/joining.ts'
import { checkRows, type RowCheckSetup } from '../../src/models/row-check/row-check.ts'
import type { TrialFeeds } from '../../src/run/trial-feeds.ts'
import type { TensorMetadata } from '../../src/index.ts'

const tensor = (name: string): TensorMetadata => ({ name, type: 'float32', shape: ['N', 4] })
const metadata = { inputs: [tensor('x')], outputs: [tensor('y')] }
const usual: RowCheckSetup = {
  maxBatchSize: 32,
  samples: [],
  padding: null,
  optional: new Set(),
  tolerance: floatTolerance,
}

/** A model that gives what it is given, in `rowMs` a row; `first` as many times that for its first run. */
function model(rowMs: number, first = 1) {
  const sizes: number[] = []
  let costMs = 0
  const run = async (feeds: TrialFeeds) => {
    const rows = feeds[0]!.dims[0]!
    const runMs = rows * rowMs * (sizes.length === 0 ? first : 1)
    sizes.push(rows)
    costMs += runMs
    return { error: null, runMs, outputs: [feeds[0]!] }
  }
  return { run, sizes, cost: () => costMs }
}

describe('the check of rows', () => {
  it.each([
    [12, [1, 2, 3, 4, 5, 6, 7, 8, 12, 18, 27, 32]],
    [200, [1, 2, 3, 4, 5]],
    [5000, [1, 2, 3]],
  ])(
    'of a model of %d ms a row joins no more rows than run for a second, and no more in all than a few batches have',
    async (rowMs, expected) => {
      const { run, sizes } = model(rowMs)
      expect((await checkRows(metadata, usual, run)).rows).toBe('independent')
      expect(new Set(sizes)).toEqual(new Set(expected))
      expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(300)
    },
  )

  it('of a model of short runs tries every size up to the largest batch', async () => {
    const { run, sizes, cost } = model(0.01)
    await checkRows(metadata, usual, run)
    expect(new Set(sizes)).toEqual(new Set(Array.from({ length: 32 }, (_, index) => index + 1)))
    expect(cost()).toBeLessThan(10)
  })

  it('tries no batch that is never run', async () => {
    const { run, sizes } = model(0.01)
    await checkRows(metadata, { ...usual, maxBatchSize: 4 }, run)
    expect(Math.max(...sizes)).toBe(4)
  })

  it('tries no more rows at once for a batch size without bounds', async () => {
    const { run, sizes } = model(0.001)
    await checkRows(metadata, { ...usual, maxBatchSize: 1e9 }, run)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(256)
  })

  it('is not misled by runs that were held up', async () => {
    const { run, sizes } = model(0.01)
    const heldUp = async (feeds: TrialFeeds) => ({
      ...(await run(feeds)),
      ...(sizes.length % 3 === 0 ? { runMs: 1000 } : {}),
    })
    await checkRows(metadata, usual, heldUp)
    expect(new Set(sizes)).toEqual(new Set(Array.from({ length: 32 }, (_, index) => index + 1)))
  })

  it('begins with rows of extreme scales', async () => {
    const scales: number[][] = []
    const { run } = model(0.01)
    await checkRows(metadata, usual, async (feeds) => {
      const values = new Float32Array(feeds[0]!.data as ArrayBuffer)
      if (feeds[0]!.dims[0] === 8)
        scales.push(
          Array.from({ length: 8 }, (_, row) =>
            Math.max(...values.slice(4 * row, 4 * row + 4).map(Math.abs)),
          ),
        )
      return run(feeds)
    })
    expect(Math.max(...scales[0]!)).toBeGreaterThan(10_000)
    expect(Math.min(...scales[0]!.filter((scale) => scale > 0))).toBeLessThan(1e-3)
  })

  it('ends with the first difference', async () => {
    const { run, sizes } = model(0.01)
    const verdict = await checkRows(metadata, usual, async (feeds) => {
      const result = await run(feeds)
      return feeds[0]!.dims[0] === 5
        ? { ...result, outputs: [{ ...feeds[0]!, data: new ArrayBuffer(80) }] }
        : result
    })
    expect(verdict).toMatchObject({
      rows: 'dependent',
      largestDifference: expect.any(Number),
      reason: expect.stringContaining("output 'y'"),
    })
    expect(sizes.at(-1)).toBe(1) // the first of the five once more
    expect(sizes.filter((size) => size === 5)).toHaveLength(1)
  })

  it('says that nothing could be run', async () => {
    const run = async () => ({ error: 'no such row', runMs: 0.1, outputs: [] })
    expect(await checkRows(metadata, usual, run)).toMatchObject({
      rows: 'unknown',
      largestDifference: null,
      reason: 'the model does not run on rows that were made up',
    })
  })

  it('says that all rows gave the same', async () => {
    const run = async (feeds: TrialFeeds) => ({
      error: null,
      runMs: 0.1,
      outputs: [{ ...feeds[0]!, data: new ArrayBuffer(16 * feeds[0]!.dims[0]!) }],
    })
    expect(await checkRows(metadata, usual, run)).toMatchObject({
      rows: 'unknown',
      largestDifference: 0,
      reason: expect.stringContaining("output 'y' is the same"),
    })
  })

  it('takes the rows of samples where no others can be run', async () => {
    const { run } = model(0.01)
    const sample = (value: number): TrialFeeds => [
      { type: 'float32', dims: [1, 4], data: new Float32Array(4).fill(value).buffer },
    ]
    const samples = [sample(-7), sample(-9)]
    const picky = async (feeds: TrialFeeds) => {
      const fits = new Float32Array(feeds[0]!.data as ArrayBuffer).every(
        (value) => value === -7 || value === -9,
      )
      return fits ? run(feeds) : { error: 'neither -7 nor -9', runMs: 0.01, outputs: [] }
    }
    expect(await checkRows(metadata, { ...usual, samples }, picky)).toMatchObject({ rows: 'independent' })
    expect(await checkRows(metadata, { ...usual, samples: [sample(-7)] }, picky)).toMatchObject({
      rows: 'unknown',
    })
  })
})
