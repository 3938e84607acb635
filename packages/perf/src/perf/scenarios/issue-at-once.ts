import { Turns, type ScenarioRun } from './scenario-run.ts'

/**
 * `offline`: one query with all samples, each of them counted from the start. As a process cannot hold requests for millions
 * of samples at once, the next is asked for when one of `offlineWindow` has been answered: there is always more to do than
 * the engine has at hand. Settles when all have ended.
 *
 * @param sampleCount of the query; `null` where it goes on until the minimum of time and samples is reached.
 */
export async function issueAtOnce(run: ScenarioRun, sampleCount: number | null): Promise<void> {
  const { settings, order, send, clock, record, startMs, signal } = run
  const sample = new Uint32Array(1)
  const turns = new Turns(clock)
  const query = record.issued(0, clock.nowMs() - startMs, 0)
  const isDone = () => {
    const { samplesIssued } = record
    if (signal?.aborted === true || samplesIssued >= order.count) return true
    const elapsedMs = clock.nowMs() - startMs
    if (settings.maxDurationMs !== 0 && elapsedMs > settings.maxDurationMs) return true
    return sampleCount === null
      ? samplesIssued >= settings.minQueryCount && elapsedMs >= settings.minDurationMs
      : samplesIssued >= sampleCount
  }
  const askInTurn = async () => {
    while (!isDone()) {
      order.next(sample)
      record.samplesIssued++
      let failed = false
      try {
        await send(sample[0]!)
        record.sampleAnswered(clock.nowMs() - startMs)
      } catch (error) {
        failed = true
        record.sampleFailed(error)
      }
      await turns.give(failed)
    }
  }
  await Promise.all(Array.from({ length: settings.offlineWindow }, askInTurn))
  record.ended(query, 0, clock.nowMs() - startMs, record.failureCount > 0)
}
