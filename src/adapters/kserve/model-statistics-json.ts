import type { EngineStatistics, VersionStatistics } from '../../engine/engine-statistics.ts'

type Sums = VersionStatistics['inferenceStats']

/** Statistics of models in the shape of Triton's extension; those of one name, or of one version of it, where that is given. */
export function statisticsJson(
  { models }: Pick<EngineStatistics, 'models'>,
  name?: string,
  version?: number,
): object {
  const named = Object.entries(models).filter(([each]) => name === undefined || each === name)
  const all = named.flatMap(([each, { versions }]) =>
    Object.entries(versions).map(([number, statistics]) => ({
      name: each,
      version: Number(number),
      statistics,
    })),
  )
  const wanted = all.filter(
    (each) => each.statistics.state !== 'closed' && (version === undefined || each.version === version),
  )
  return {
    model_stats: wanted.map((each) => ({
      name: each.name,
      version: String(each.version),
      ...modelStatistics(each.statistics),
    })),
  }
}

function modelStatistics({
  lastInferenceMs,
  inferenceCount,
  executionCount,
  inferenceStats,
  batchStats,
  arena,
}: VersionStatistics): object {
  return {
    last_inference: Math.round(lastInferenceMs),
    inference_count: inferenceCount,
    execution_count: executionCount,
    inference_stats: sums(inferenceStats),
    response_stats: {},
    batch_stats: batchStats.map(({ batchSize, computeInput, computeInfer, computeOutput }) => ({
      batch_size: batchSize, compute_input: computeInput, compute_infer: computeInfer, compute_output: computeOutput,
    })), // prettier-ignore
    memory_usage: arena === null ? [] : [{ type: 'CPU', id: 0, byte_size: arena.totalBytes }],
  }
}

function sums({
  success,
  fail,
  queue,
  computeInput,
  computeInfer,
  computeOutput,
  cacheHit,
  cacheMiss,
}: Sums): object {
  return {
    success,
    fail,
    queue,
    compute_input: computeInput,
    compute_infer: computeInfer,
    compute_output: computeOutput,
    cache_hit: cacheHit,
    cache_miss: cacheMiss,
  }
}
