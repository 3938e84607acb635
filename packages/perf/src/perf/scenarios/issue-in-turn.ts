import { isOver, issueQuery, Turns, type ScenarioRun } from './scenario-run.ts'

/**
 * `single-stream` and `multi-stream`: each query follows the one before, until the minimum of queries and of time is reached.
 * LoadGen draws up its queries beforehand and can run out of them; here they are drawn up as they are sent.
 */
export async function issueInTurn(run: ScenarioRun): Promise<void> {
  const { settings, order, clock, record, startMs } = run
  const samples = new Uint32Array(order.samplesPerQuery)
  const turns = new Turns(clock)
  for (let failures = 0; ; failures = record.failureCount) {
    order.next(samples)
    await issueQuery(run, samples, clock.nowMs() - startMs)
    if (record.queriesIssued >= settings.minQueryCount && record.finalIssuedMs >= settings.minDurationMs)
      return
    if (isOver(run)) return
    await turns.give(record.failureCount > failures)
  }
}
