import { describe, expect, it } from 'vitest'
import { calibrate, type RunSample } from '../../src/schedule/calibration.ts'
import { RunTimes } from '../../src/schedule/estimates.ts'
import type { MailedTensor } from '../../src/tensor/tensor.ts'

const floats = (row: number): MailedTensor => ({
  type: 'float32',
  dims: [1, row],
  data: new Float32Array(row).buffer,
})

/** The batch sizes that are measured, with runs of `runMs`, and how often each is run. */
async function measured(
  feeds: readonly (MailedTensor | null)[],
  maxBatchSize: number,
  preferred: readonly number[] = [],
  runMs = (_rows: number) => 1,
) {
  const runs = new Map<number, number>()
  const run: RunSample = async (given) => {
    const rows = (given.find((feed) => feed !== null) as MailedTensor).dims[0]!
    runs.set(rows, (runs.get(rows) ?? 0) + 1)
    return { error: null, runMs: runMs(rows) }
  }
  await calibrate(new RunTimes(), { feeds, bucketKey: '' }, maxBatchSize, preferred, 50, run)
  expect(new Set(runs.values())).toEqual(new Set([4]))
  return [...runs.keys()]
}

describe('calibration', () => {
  it('measures powers of two, preferred sizes and the largest', async () => {
    expect(await measured([floats(4)], 12, [3, 6])).toEqual([1, 2, 3, 4, 6, 8, 12])
    expect(await measured([floats(4)], 0)).toEqual([1])
  })

  it('ends with the first size that exceeds the target alone', async () => {
    expect(await measured([floats(4)], 2 ** 31 - 1, [], (rows) => rows)).toEqual([1, 2, 4, 8, 16, 32, 64])
  })

  it.each([
    ['rows of 16 bytes', [floats(4)], 2 ** 17],
    ['rows of no byte', [floats(0)], 2 ** 17],
    ['rows of 600 KB', [null, floats(150_000)], 128],
    ['rows of 300 MB', [{ type: 'uint8', dims: [1, 3e8], data: new ArrayBuffer(3e8) } as const], 1],
    [
      'rows of many strings',
      [{ type: 'string', dims: [1, 2048], data: Array.from({ length: 2048 }, () => 'a') } as const],
      256,
    ],
  ])(
    'ends where inputs would need much memory, however many rows are allowed: %s',
    async (_, feeds, largest) => {
      expect((await measured(feeds, 2 ** 31 - 1)).at(-1)).toBe(largest)
    },
  )

  it('does not measure each of many preferred sizes', async () => {
    const preferred = Array.from({ length: 1000 }, (_, index) => index + 1)
    expect(await measured([floats(4)], 1000, preferred)).toEqual([
      1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000,
    ])
  })
})
