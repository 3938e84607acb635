import { TurnPacer, type Pacer } from '../load/pacer.ts'
import type { LoadClock } from '../load/load-clock.ts'
import { issueAtOnce } from './issue-at-once.ts'
import { issueInTurn } from './issue-in-turn.ts'
import { issueOnSchedule } from './issue-on-schedule.ts'
import { judgeRun } from './judge-run.ts'
import { serverSchedule } from './poisson-schedule.ts'
import { RunRecord } from './run-record.ts'
import { sampleOrder } from './sample-order.ts'
import type { ScenarioRun, SendSample } from './scenario-run.ts'
import type { ScenarioResult } from './scenario-result.ts'
import type { ScenarioSettings } from './scenario-settings.ts'

/** LoadGen draws up a little more for offline than it takes to last for long enough. */
const offlineSlack = 1.1

/** What a scenario is run with. */
export interface ScenarioSystem {
  readonly send: SendSample
  readonly clock: LoadClock
  /** Wakes the sender of `server`. Default: by timers, and turns of the event loop. */
  readonly pacer?: Pacer
  /** Ends the run; its result is of what was measured until then, and not valid. */
  readonly signal?: AbortSignal | undefined
}

/** Runs a scenario once; `server` at the rate given. */
export async function runScenario(
  settings: ScenarioSettings,
  system: ScenarioSystem,
): Promise<ScenarioResult> {
  const { record, sampleCount } = await recordRun(settings, system)
  return judgeRun({ settings, record, sampleCount, peak: null, aborted: system.signal?.aborted === true })
}

/** Runs a scenario once, and tells what was seen. */
export async function recordRun(
  settings: ScenarioSettings,
  { send, clock, pacer = new TurnPacer(clock), signal }: ScenarioSystem,
  isHopeless?: ScenarioRun['isHopeless'],
): Promise<{ readonly record: RunRecord; readonly sampleCount: number | null }> {
  const record = new RunRecord(settings)
  const order = sampleOrder(settings)
  const run: ScenarioRun = {
    settings,
    order,
    send,
    clock,
    pacer,
    signal,
    record,
    startMs: clock.nowMs(),
    isHopeless,
  }
  const sampleCount = settings.scenario === 'offline' ? offlineSampleCount(settings, order.count) : null
  if (settings.scenario === 'server')
    await issueOnSchedule(run, serverSchedule(settings, settings.targetQps ?? 1))
  else if (settings.scenario === 'offline') await issueAtOnce(run, sampleCount)
  else await issueInTurn(run)
  return { record, sampleCount }
}

/** Samples of the query of `offline`; `null` where no rate is expected. */
function offlineSampleCount(
  { targetQps, minDurationMs, minQueryCount, inputs }: ScenarioSettings,
  uniqueCount: number,
): number | null {
  if (inputs === 'unique') return uniqueCount
  return targetQps === null
    ? null
    : Math.max(minQueryCount, Math.trunc((offlineSlack * minDurationMs * targetQps) / 1000))
}
