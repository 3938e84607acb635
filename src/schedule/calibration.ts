import type { ResolvedConfig } from '../options/model-config.ts'
import { wholeKey } from '../request/bucket-keys.ts'
import type { Joining } from './joining.ts'
import type { RunTimes } from './estimates.ts'
import type { MailedTensor } from '../tensor/tensor.ts'
import { joinTensors } from '../tensor/elements.ts'
import { cutRows, isMailedTensor, tensorsIn, type MailedValue } from '../tensor/values.ts'

/** Runs of each size; the first, which sets up memory, is not counted. */
const runsPerSize = 4
/** Most bytes of a run's inputs. The times of larger runs are estimated from those that were run. */
const maxBytes = 2 ** 27
/** Bytes that a row counts for at least, and bytes of a string: outputs need memory too, of unknown size. */
const leastRowBytes = 1024
const stringBytes = 256
/** If there are more preferred sizes than this, none is measured: they lie between sizes that are. */
const fewPreferred = 32

/** A request whose first row is run in several sizes. */
interface CalibrationSample {
  readonly feeds: readonly (MailedValue | null)[]
  readonly bucketKey: string
}

/** Runs a sample on an instance, and returns how long that took in milliseconds. */
export type RunSample = (
  feeds: readonly (MailedValue | null)[],
) => Promise<{ readonly error: string | null; readonly runMs: number }>

/**
 * Measures how long runs take, if a latency target needs that and it is not known: during a load, and again when requests are
 * found to share runs.
 *
 * @param sample `undefined` if there is none to run.
 * @param isServing whether requests wait for its runs: sizes that take more than a quarter of the target are left to them.
 */
export async function calibrateModel(
  runTimes: RunTimes,
  { latencyTargetMs, preferredBatchSizes, joinRequests }: ResolvedConfig,
  { byRow, joinedBuckets, largestBatch }: Joining,
  sample: CalibrationSample | undefined,
  run: RunSample,
  isServing: boolean,
): Promise<void> {
  if (latencyTargetMs === 0 || sample === undefined) return
  const inRows = byRow && joinedBuckets?.has(sample.bucketKey) !== false
  const bucketKey = inRows
    ? sample.bucketKey
    : wholeKey(sample.feeds.map((feed) => (feed && isMailedTensor(feed) ? feed.dims : null)))
  if (runTimes.knows(bucketKey)) return
  const maxBatchSize = joinRequests && inRows ? largestBatch : Math.min(1, largestBatch)
  const mostMs = isServing ? latencyTargetMs / 4 : latencyTargetMs
  await calibrate(runTimes, { ...sample, bucketKey }, maxBatchSize, preferredBatchSizes, mostMs, run)
}

/**
 * Measures how long runs take before a request waits for one: batches of 1, 2, 4 ... rows and of the largest size, each a
 * sample's first row repeated. It stops at a size whose run exceeds the target, as no such batch will be formed, and at one
 * whose inputs would need much memory.
 *
 * @param maxBatchSize in rows; 0 for a model without a batch dimension.
 * @param preferred batch sizes that are measured as well, if they are few.
 */
export async function calibrate(
  runTimes: RunTimes,
  { feeds, bucketKey }: CalibrationSample,
  maxBatchSize: number,
  preferred: readonly number[],
  targetMs: number,
  run: RunSample,
): Promise<void> {
  const batched = maxBatchSize > 0
  const rowBytes = Math.max(
    leastRowBytes,
    feeds.reduce((bytes, feed) => bytes + (feed === null ? 0 : bytesIn(feed, batched)), 0),
  )
  for (const rows of batched ? batchSizesToTry(maxBatchSize, preferred) : [1]) {
    if (rows > 1 && rows * rowBytes > maxBytes) return
    const repeated = batched ? feeds.map((feed) => feed && repeatRow(feed as MailedTensor, rows)) : feeds
    for (let count = 0; count < runsPerSize; count++) {
      const { error, runMs } = await run(repeated)
      if (error !== null) return
      if (count > 0) runTimes.observe(bucketKey, rows, runMs)
    }
    if (runTimes.of(bucketKey).usualMs(rows) > targetMs) return
  }
}

/** Sizes that batches have, or nearly: 1, 2, 4 ..., the largest, and preferred ones if they are few. */
export function batchSizesToTry(maxBatchSize: number, preferred: readonly number[]): number[] {
  const all = new Set([...(preferred.length > fewPreferred ? [] : preferred), maxBatchSize])
  for (let size = 1; size < maxBatchSize; size *= 2) all.add(size)
  return [...all].sort((a, b) => a - b)
}

/** Bytes of one row, or of all there is. */
function bytesIn(value: MailedValue, perRow: boolean): number {
  const bytes = ({ dims, data }: MailedTensor) =>
    (data instanceof ArrayBuffer ? data.byteLength : data.length * stringBytes) /
    (perRow ? Math.max(1, dims[0]!) : 1)
  return tensorsIn(value).reduce((sum, tensor) => sum + bytes(tensor), 0)
}

/** The first row so many times; what is batched has rows. */
function repeatRow(tensor: MailedTensor, rows: number): MailedTensor {
  const row = tensor.dims[0] === 0 ? tensor : (cutRows(tensor, 0, 1) as MailedTensor)
  return joinTensors(Array.from({ length: rows }, () => row))
}
