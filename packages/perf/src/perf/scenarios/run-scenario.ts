import type { LoadClock } from '../load/load.ts'
import { type Pacer, TurnPacer } from '../load/open-loop.ts'
import { codeOf } from '../load/recorder.ts'
import type { ScenarioResult } from '../result-schema.ts'
import { judgeRun } from './judge-run.ts'
import { sampleOrder, type SampleOrder, serverSchedule } from './random-draws.ts'
import type { ScenarioSettings } from './scenario-settings.ts'

/** LoadGen prepares slightly more samples for offline than the minimum duration needs. */
const offlineSlack = 1.1

/** What a scenario needs to run. */
export interface ScenarioSystem {
  readonly send: SendSample
  readonly clock: LoadClock
  /** Wakes the sender of `server`. Default: timers and turns of the event loop. */
  readonly pacer?: Pacer
  /** Aborts the run. The result covers what was measured so far, and is not valid. */
  readonly signal?: AbortSignal | undefined
}

/** Runs a scenario once; `server` at the given rate. */
export async function runScenario(
  settings: ScenarioSettings,
  system: ScenarioSystem,
): Promise<ScenarioResult> {
  const { record, sampleCount } = await recordRun(settings, system)
  return judgeRun({ settings, record, sampleCount, peak: null, aborted: system.signal?.aborted === true })
}

/** Runs a scenario once, and returns the record. */
export async function recordRun(
  settings: ScenarioSettings,
  system: ScenarioSystem,
  isHopeless?: ScenarioRun['isHopeless'],
): Promise<{ readonly record: RunRecord; readonly sampleCount: number | null }> {
  const { clock, pacer = new TurnPacer(clock) } = system
  const record = new RunRecord(settings)
  const order = sampleOrder(settings)
  const run: ScenarioRun = {
    ...system,
    pacer,
    settings,
    order,
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

/** Samples of the query of `offline`; `null` without an expected rate. */
function offlineSampleCount(
  { targetQps, minDurationMs, minQueryCount, inputs }: ScenarioSettings,
  uniqueCount: number,
): number | null {
  if (inputs === 'unique') return uniqueCount
  return targetQps === null
    ? null
    : Math.max(minQueryCount, Math.trunc((offlineSlack * minDurationMs * targetQps) / 1000))
}

/** Sends one sample, by its index; rejects if it is not answered. */
export type SendSample = (sampleIndex: number) => Promise<unknown>

/** One run of a scenario: its inputs and its record. */
interface ScenarioRun extends ScenarioSystem {
  readonly pacer: Pacer
  readonly settings: ScenarioSettings
  readonly order: SampleOrder
  readonly record: RunRecord
  readonly startMs: number
  /** Whether the run is useless, so that sending stops. Used by a search. */
  readonly isHopeless: ((record: RunRecord) => boolean) | undefined
}

/**
 * Sends one query, each of its samples as a request, and records the outcome. Settles without an error when
 * all have ended.
 */
async function issueQuery(
  { send, clock, record, startMs }: ScenarioRun,
  samples: Uint32Array,
  scheduledMs: number,
): Promise<void> {
  const query = record.issued(scheduledMs, clock.nowMs() - startMs, samples.length)
  let failed = false
  const askFor = async (sample: number) => {
    try {
      await send(sample)
      record.sampleAnswered(clock.nowMs() - startMs - scheduledMs)
    } catch (error) {
      failed = true
      record.sampleFailed(error)
    }
  }
  if (samples.length === 1) await askFor(samples[0]!)
  else await Promise.all(Array.from(samples, askFor))
  record.ended(query, scheduledMs, clock.nowMs() - startMs, failed)
}

/**
 * Whether sending stops, as LoadGen decides after each query (`IssueQueriesInternal` in
 * issue_query_controller.cc).
 */
function isOver({ settings, order, record, signal }: ScenarioRun): boolean {
  const { queriesIssued, finalIssuedMs } = record
  if (signal?.aborted === true || queriesIssued >= order.count) return true
  if (settings.maxQueryCount !== 0 && queriesIssued >= settings.maxQueryCount) return true
  return settings.maxDurationMs !== 0 && finalIssuedMs > settings.maxDurationMs
}

/** Immediate answers, for example from a cache, would otherwise block the event loop. */
const longestTurnMs = 5

/**
 * Lets the event loop run when it has waited for long, or `now`: a request that is refused at once would otherwise be
 * repeated at once.
 */
function turnGiver(clock: LoadClock): (now: boolean) => Promise<void> {
  let lastMs = clock.nowMs()
  return async (now) => {
    if (!now && clock.nowMs() - lastMs < longestTurnMs) return
    await new Promise<void>((resolve) => clock.nextTurn(resolve))
    lastMs = clock.nowMs()
  }
}

/**
 * The outcome of a run's queries. Times are milliseconds since its start. Each is kept: percentiles are exact, as
 * LoadGen's are.
 */
export class RunRecord {
  /** Of answered samples, from the scheduled time of their query. */
  readonly sampleLatenciesMs: number[] = []
  /** Of completely answered queries of `multi-stream`, from their scheduled time to the last sample. */
  readonly queryLatenciesMs: number[] = []
  /** How late queries of `server` were sent. */
  readonly sendLagMs: number[] = []
  /** Samples that were not answered, by error code. */
  readonly failures: Record<string, number> = {}
  /** Samples answered after the bound. */
  overCount = 0
  /** Samples that were not answered. */
  failureCount = 0
  queriesIssued = 0
  samplesIssued = 0
  /** Queries that have ended, answered or not. */
  queriesEnded = 0
  finalScheduledMs = 0
  finalIssuedMs = 0
  /** When the last sample of the final query was answered. */
  finalDoneMs = 0
  readonly #settings: Pick<ScenarioSettings, 'scenario' | 'targetLatencyMs'>
  #finalQuery = -1

  constructor(settings: Pick<ScenarioSettings, 'scenario' | 'targetLatencyMs'>) {
    this.#settings = settings
  }

  get outstanding(): number {
    return this.queriesIssued - this.queriesEnded
  }

  /** A query is sent; returns its number. */
  issued(scheduledMs: number, issuedMs: number, samples: number): number {
    this.finalScheduledMs = scheduledMs
    this.finalIssuedMs = issuedMs
    if (this.#settings.scenario === 'server') this.sendLagMs.push(issuedMs - scheduledMs)
    this.samplesIssued += samples
    return this.queriesIssued++
  }

  /** All samples of a query have been answered or have failed. */
  ended(query: number, scheduledMs: number, doneMs: number, failed: boolean): void {
    this.queriesEnded++
    if (!failed && this.#settings.scenario === 'multi-stream')
      this.queryLatenciesMs.push(doneMs - scheduledMs)
    if (query < this.#finalQuery) return
    this.#finalQuery = query
    this.finalDoneMs = doneMs
  }

  sampleAnswered(latencyMs: number): void {
    this.sampleLatenciesMs.push(latencyMs)
    if (latencyMs > this.#settings.targetLatencyMs) this.overCount++
  }

  sampleFailed(error: unknown): void {
    this.failureCount++
    const code = codeOf(error)
    this.failures[code] = (this.failures[code] ?? 0) + 1
  }
}

/**
 * `single-stream` and `multi-stream`: each query follows the one before, until the minimum of queries and of
 * time is reached. LoadGen prepares its queries in advance and can run out of them; here they are made when
 * they are sent.
 */
async function issueInTurn(run: ScenarioRun): Promise<void> {
  const { settings, order, clock, record, startMs } = run
  const samples = new Uint32Array(order.samplesPerQuery)
  const giveTurn = turnGiver(clock)
  for (let failures = 0; ; failures = record.failureCount) {
    order.next(samples)
    await issueQuery(run, samples, clock.nowMs() - startMs)
    if (record.queriesIssued >= settings.minQueryCount && record.finalIssuedMs >= settings.minDurationMs)
      return
    if (isOver(run)) return
    await giveTurn(record.failureCount > failures)
  }
}

/**
 * `offline`: one query with all samples, whose latencies count from the start. A process cannot hold requests
 * for millions of samples at once, so at most `offlineWindow` are in flight, which is always more than the
 * engine can run at a time. Settles when all have ended.
 *
 * @param sampleCount of the query; `null` to go on until the minimum of time and samples is reached.
 */
async function issueAtOnce(run: ScenarioRun, sampleCount: number | null): Promise<void> {
  const { settings, order, send, clock, record, startMs, signal } = run
  const sample = new Uint32Array(1)
  const giveTurn = turnGiver(clock)
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
      await giveTurn(failed)
    }
  }
  await Promise.all(Array.from({ length: settings.offlineWindow }, askInTurn))
  record.ended(query, 0, clock.nowMs() - startMs, record.failureCount > 0)
}

/** Most due queries sent in one turn of the event loop: more would delay answers. */
const mostPerTurn = 16

/** Most queries waiting for answers; then the run ends, as it uses much memory and cannot meet its bound. */
const mostOutstanding = 200_000

/**
 * `server`: sends queries when they are due, without waiting for earlier ones. Settles when all have ended.
 */
function issueOnSchedule(run: ScenarioRun, schedule: Iterator<number, void>): Promise<void> {
  const { settings, order, clock, pacer, record, startMs, isHopeless } = run
  const sample = new Uint32Array(1)
  let next = schedule.next()
  return new Promise((resolve) => {
    const resolveWhenEnded = () => {
      if (next.done && record.outstanding === 0) resolve()
    }
    const isEnded = () => {
      if (isOver(run)) return true
      if (record.outstanding > Math.min(settings.maxAsyncQueries || Infinity, mostOutstanding)) return true
      return isHopeless?.(record) === true
    }
    const sendDue = () => {
      for (let sent = 0; !next.done; sent++) {
        const dueMs = startMs + next.value
        if (dueMs > clock.nowMs()) return pacer.wakeAt(dueMs, sendDue)
        if (sent === mostPerTurn) return clock.nextTurn(sendDue)
        order.next(sample)
        void issueQuery(run, sample, next.value).then(resolveWhenEnded)
        next = isEnded() ? { done: true, value: undefined } : schedule.next()
      }
      resolveWhenEnded()
    }
    sendDue()
  })
}
