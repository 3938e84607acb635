import type { Clock } from '../base/clock.ts'
import type { SampleRun } from './executors/executor.ts'

/**
 * Runs a sample, and has it stopped when it takes too long: what it was to be warmed by may never end, and others wait for the
 * worker.
 *
 * @param maxRunMs 0 for no limit.
 * @returns the run; one that was stopped says so as its error.
 */
export async function within(
  maxRunMs: number,
  clock: Clock,
  run: () => Promise<SampleRun>,
  stop: () => void,
): Promise<SampleRun> {
  if (maxRunMs === 0) return run()
  let isLate = false
  const timer = clock.setTimer(() => {
    isLate = true
    stop()
  }, maxRunMs)
  try {
    const done = await run()
    return isLate && done.error !== null
      ? { ...done, error: `it took longer than maxRunMs, ${maxRunMs} ms` }
      : done
  } finally {
    clock.clearTimer(timer)
  }
}
