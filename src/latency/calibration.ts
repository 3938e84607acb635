import type { RunTimes } from './run-times.ts'
import type { MailedTensor } from '../tensor.ts'

/** Runs of each size; the first, which sets up memory, is not counted. */
const runsPerSize = 4

/** Runs a sample on an instance and says what that took, in milliseconds. */
export type RunSample = (feeds: readonly (MailedTensor | null)[]) => Promise<{ readonly error: string | null; readonly runMs: number }>

/**
 * Measures what runs take before anybody waits for one: batches of 1, 2, 4 ... rows and of the largest size, each a
 * sample's first row repeated. It stops at a size whose run alone exceeds the target: no such batch will be formed.
 *
 * @param maxBatchSize in rows; 0 for a model without a batch dimension.
 * @param preferred batch sizes that are measured as well.
 */
export async function calibrate(
  runTimes: RunTimes,
  { feeds, bucketKey }: { readonly feeds: readonly (MailedTensor | null)[]; readonly bucketKey: string },
  maxBatchSize: number,
  preferred: readonly number[],
  targetMs: number,
  run: RunSample,
): Promise<void> {
  const batched = maxBatchSize > 0
  for (const rows of batched ? sizes(maxBatchSize, preferred) : [1]) {
    const repeated = batched ? feeds.map((feed) => feed && repeatRow(feed, rows)) : feeds
    for (let count = 0; count < runsPerSize; count++) {
      const { error, runMs } = await run(repeated)
      if (error !== null) return
      if (count > 0) runTimes.observe(bucketKey, rows, runMs)
    }
    if (runTimes.medianMs(bucketKey, rows) > targetMs) return
  }
}

function sizes(maxBatchSize: number, preferred: readonly number[]): number[] {
  const all = new Set([...preferred, maxBatchSize])
  for (let size = 1; size < maxBatchSize; size *= 2) all.add(size)
  return [...all].sort((a, b) => a - b)
}

function repeatRow({ type, dims, data }: MailedTensor, rows: number): MailedTensor {
  const given = Math.max(1, dims[0]!)
  const repeatedDims = [rows, ...dims.slice(1)]
  if (!(data instanceof ArrayBuffer)) {
    const row = data.slice(0, data.length / given)
    return { type, dims: repeatedDims, data: Array.from({ length: rows }, () => row).flat() }
  }
  const row = new Uint8Array(data, 0, data.byteLength / given)
  const repeated = new Uint8Array(row.length * rows)
  for (let at = 0; at < repeated.length; at += row.length || repeated.length) repeated.set(row, at)
  return { type, dims: repeatedDims, data: repeated.buffer }
}
