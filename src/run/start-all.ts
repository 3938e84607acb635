import type { Worker } from './worker.ts'

/** Starts the threads of workers that have none yet; rejects, when all have come to something, if one could not be started. */
export async function startAll(workers: ReadonlySet<Worker>): Promise<void> {
  const results = await Promise.allSettled([...workers].map((worker) => worker.start()))
  const failed = results.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}
