import type { ResolvedConfig } from '../options/resolve-model-config.ts'
import type { WarmUp } from '../run/warm-up.ts'
import { calibrate } from './calibration.ts'
import { RunTimes } from './run-times.ts'
import { wholeKey } from '../request/feeds.ts'
import { isMailedTensor } from '../tensor/values.ts'
import type { WorkerSession } from '../run/worker-session.ts'
import type { Joining } from '../models/row-check/joining.ts'

/** What runs take; measured during a load where a latency target depends on it. */
export async function calibrateAtLoad(
  { latencyTargetMs, preferredBatchSizes, joinRequests }: ResolvedConfig,
  { byRow, largestBatch }: Joining,
  { calibrationSample: sample, form }: Pick<WarmUp, 'calibrationSample' | 'form'>,
  session: Pick<WorkerSession, 'runSample'>,
): Promise<RunTimes> {
  const runTimes = new RunTimes()
  if (latencyTargetMs === 0 || sample === undefined) return runTimes
  const bucketKey = byRow
    ? sample.bucketKey
    : wholeKey(sample.feeds.map((feed) => (feed && isMailedTensor(feed) ? feed.dims : null)))
  const maxBatchSize = joinRequests && byRow ? largestBatch : Math.min(1, largestBatch)
  await calibrate(
    runTimes,
    { ...sample, bucketKey },
    maxBatchSize,
    preferredBatchSizes,
    latencyTargetMs,
    (feeds) => form.run(session, feeds),
  )
  return runTimes
}
