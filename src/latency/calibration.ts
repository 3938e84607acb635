import type { RunTimes } from './run-times.ts'
import type { MailedTensor } from '../tensor.ts'

/** Runs of each size; the first, which sets up memory, is not counted. */
const runsPerSize = 4
/** Most bytes that the inputs of a run are given; what a larger one takes follows from those that were run. */
const maxBytes = 2 ** 27
/** What a row counts for at least, and so does a string: outputs need memory too, and nobody knows how much. */
const leastRowBytes = 1024
const stringBytes = 256
/** More preferred sizes than this are not measured one by one: they lie between those that are. */
const fewPreferred = 32

/** Runs a sample on an instance and says what that took, in milliseconds. */
export type RunSample = (feeds: readonly (MailedTensor | null)[]) => Promise<{ readonly error: string | null; readonly runMs: number }>

/**
 * Measures what runs take before anybody waits for one: batches of 1, 2, 4 ... rows and of the largest size, each a
 * sample's first row repeated. It stops at a size whose run alone exceeds the target: no such batch will be formed; and
 * where the inputs would need much memory.
 *
 * @param maxBatchSize in rows; 0 for a model without a batch dimension.
 * @param preferred batch sizes that are measured as well, if they are few.
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
  const rowBytes = Math.max(leastRowBytes, feeds.reduce((bytes, feed) => bytes + (feed === null ? 0 : bytesPerRow(feed)), 0))
  for (const rows of batched ? sizes(maxBatchSize, preferred) : [1]) {
    if (rows > 1 && rows * rowBytes > maxBytes) return
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
  const all = new Set([...(preferred.length > fewPreferred ? [] : preferred), maxBatchSize])
  for (let size = 1; size < maxBatchSize; size *= 2) all.add(size)
  return [...all].sort((a, b) => a - b)
}

function bytesPerRow({ dims, data }: MailedTensor): number {
  return (data instanceof ArrayBuffer ? data.byteLength : data.length * stringBytes) / Math.max(1, dims[0]!)
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
