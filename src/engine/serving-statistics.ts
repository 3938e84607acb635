import type { ModelLifecycle } from './model-target.ts'
import type { ModelStatistics } from '../observe/model-statistics.ts'
import type { ModelStats } from '../observe/model-stats.ts'
import { refusalOf } from '../observe/rejections.ts'

type Serving = Pick<ModelLifecycle, 'scheduler' | 'pipeline' | 'responses' | 'leases' | 'autoTune'>

/** What was counted so far; `null` before it has served. */
export function statisticsOf({
  scheduler,
  pipeline,
  responses,
  leases,
  autoTune,
}: Serving): ModelStatistics | null {
  if (pipeline !== null) return pipeline.stats()
  if (scheduler === null) return null
  const { instances, stats, waiting } = scheduler
  return stats.snapshot(waiting, instances.arena, responses?.totals, {
    instances: instances.statistics,
    leases: leases.stats,
    autoTune,
  })
}

/**
 * The answer of a call that comes to no request, which is counted; not before it has served.
 *
 * @param signal of the call.
 */
export function refused(serving: Serving, error: unknown, signal?: AbortSignal): Promise<never> {
  countsOf(serving)?.refused(refusalOf(error, signal))
  return Promise.reject(error)
}

/** It serves, after so long. */
export function noteLoad(serving: Serving, loadMs: number): void {
  const counts = countsOf(serving)
  if (counts !== undefined) counts.loadMs = loadMs
}

function countsOf({ scheduler, pipeline }: Serving): ModelStats | undefined {
  return pipeline?.counts.stats ?? scheduler?.stats
}
