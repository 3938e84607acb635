import type { Model, ModelStatistics, RefusalReason, RejectionReason } from '../../src/index.ts'

/** How an error of ours is counted: accepted requests by the first, others by the second. */
const reasons: Record<string, [RejectionReason[], RefusalReason[]]> = {
  aborted: [['cancelled'], ['cancelled']],
  ERR_INVALID_ARG: [['changed', 'invalid'], ['invalid']],
  ERR_QUEUE_FULL: [['queueFull'], []],
  ERR_TIMEOUT: [['timeout'], ['timeout']],
  ERR_DEADLINE: [['deadline'], ['deadline']],
  ERR_CLOSED: [['closed'], ['closed']],
  ERR_MODEL_NOT_READY: [['notReady'], ['notReady']],
  ERR_INSTANCE_CRASHED: [['crashed'], []],
  ERR_EXECUTION: [['execution'], []],
  ERR_SEQUENCE_ENDED: [['sequenceEnded'], ['sequenceEnded']],
  ERR_LEASE_ENDED: [[], ['leaseEnded']],
  ERR_IMAGE_DECODE: [['imageDecode'], ['imageDecode']],
}

/** What the callers of one model saw. */
export class Ledger {
  readonly seen: Record<string, number> = {}
  /** What answered callers waited for, in milliseconds. */
  answeredMs = 0

  /** Notes how a request ended. */
  async note(send: () => Promise<unknown>): Promise<string> {
    const startMs = performance.now()
    const end = await send().then(
      () => 'answered',
      (reason: { code?: string }) => reason.code ?? String(reason),
    )
    if (end === 'answered') this.answeredMs += performance.now() - startMs
    this.seen[end] = (this.seen[end] ?? 0) + 1
    return end
  }

  /** The same of what statistics have counted. */
  static counted({ inferenceStats, rejections, refusals }: ModelStatistics): Record<string, number> {
    const ends = Object.entries(reasons).map(([end, [rejected, refused]]) => {
      const count =
        rejected.reduce((sum, why) => sum + rejections[why], 0) +
        refused.reduce((sum, why) => sum + refusals[why], 0)
      return [end, count] as const
    })
    return Object.fromEntries(
      [['answered', inferenceStats.success.count] as const, ...ends].filter(([, count]) => count > 0),
    )
  }
}

const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)

/** What has to hold of the statistics of anything that has nothing in flight; each is a pair of what is to be the same. */
export function sameFigures({
  inferenceStats,
  latency,
  batchStats,
  batchReasons,
  rerunCount,
  inferenceCount,
  executionCount,
  rejections,
  responseCache,
  instances,
  pendingRequestCount,
  ...rest
}: ModelStatistics): Record<string, [unknown, unknown]> {
  const { success, fail, overhead, queue, computeInput, computeInfer, computeOutput, cacheHit, cacheMiss } =
    inferenceStats
  const isPipeline = rest.steps !== undefined
  const ended = sum(Object.values(batchReasons)) + rerunCount
  return {
    'the parts of a success': [
      overhead.ns + queue.ns + computeInput.ns + computeInfer.ns + computeOutput.ns,
      success.ns,
    ],
    'no part is negative': [
      [overhead, queue, computeInput, computeInfer, computeOutput].filter(({ ns }) => ns < 0),
      [],
    ],
    'requests with overhead, and in the queue': [
      [overhead.count, queue.count],
      [success.count, success.count],
    ],
    rejections: [sum(Object.values(rejections)), fail.count],
    latencies: [
      [latency.total.count, latency.queue.count, latency.compute.count],
      [success.count, success.count, computeInfer.count],
    ],
    buckets: [
      [latency.total, latency.queue, latency.compute].map(({ buckets }) =>
        sum(buckets.map(({ count }) => count)),
      ),
      [success.count, success.count, computeInfer.count],
    ],
    'runs by batch size': [sum(batchStats.map(({ computeInfer: { count } }) => count)), executionCount],
    'rows by batch size': [
      sum(batchStats.map(({ batchSize, computeInfer: { count } }) => batchSize * count)),
      inferenceCount,
    ],
    'runs of instances': [isPipeline ? ended : sum(instances.map(({ runs }) => runs)), ended],
    'rows of instances': [
      isPipeline ? 0 : sum(instances.map(({ rows }) => rows)),
      isPipeline ? 0 : inferenceCount,
    ],
    'busy shares': [
      instances.filter(
        ({ busyShare, busyMs, servingMs }) => busyShare < 0 || busyShare > 1 || busyMs > servingMs,
      ),
      [],
    ],
    'hits and misses': [
      [cacheHit.count, cacheMiss.count],
      [responseCache?.hits ?? 0, responseCache?.misses ?? 0],
    ],
    pending: [pendingRequestCount, 0],
  }
}

/** The statistics of a model that has something of each in its ledger, as they have to be. */
export function expectedOf(model: Model, { seen }: Ledger): { found: unknown; expected: unknown } {
  const stats = model.stats()
  const figures = Object.entries(sameFigures(stats))
  return {
    found: {
      ends: Ledger.counted(stats),
      ...Object.fromEntries(figures.map(([name, [found]]) => [name, found])),
    },
    expected: { ends: seen, ...Object.fromEntries(figures.map(([name, [, expected]]) => [name, expected])) },
  }
}
