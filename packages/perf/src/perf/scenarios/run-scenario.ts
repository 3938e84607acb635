import type { LoadClock } from '../load/load.ts'
import { type Pacer, TurnPacer } from '../load/open-loop.ts'
import { codeOf } from '../load/recorder.ts'
import { judgeRun, type ScenarioResult } from './judge-run.ts'
import { sampleOrder, type SampleOrder, serverSchedule } from './random-draws.ts'
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

/** Asks for one sample, by its index; rejects when it is not answered. */
export type SendSample = (sampleIndex: number) => Promise<unknown>

/** One run of a scenario: what it is told, and what it notes. */
interface ScenarioRun {
  readonly settings: ScenarioSettings
  readonly order: SampleOrder
  readonly send: SendSample
  readonly clock: LoadClock
  /** Wakes the sender of `server`. */
  readonly pacer: Pacer
  /** Nothing more is sent once it is aborted. */
  readonly signal: AbortSignal | undefined
  readonly record: RunRecord
  readonly startMs: number
  /** Whether the run is of no more use, so that nothing more is sent: a search asks. */
  readonly isHopeless: ((record: RunRecord, nowMs: number) => boolean) | undefined
}

/** Sends one query, each of its samples as a request, and notes what becomes of it. Settles, without an error, when all have ended. */
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

/** Whether no further query is sent, as LoadGen decides it after each one (`IssueQueriesInternal` in issue_query_controller.cc). */
function isOver({ settings, order, record, signal }: ScenarioRun): boolean {
  const { queriesIssued, finalIssuedMs } = record
  if (signal?.aborted === true || queriesIssued >= order.count) return true
  if (settings.maxQueryCount !== 0 && queriesIssued >= settings.maxQueryCount) return true
  return settings.maxDurationMs !== 0 && finalIssuedMs > settings.maxDurationMs
}

/** Answers that are there at once (out of a cache, say) would keep the event loop, and with it everything else, from its turn. */
const longestTurnMs = 5

/** Lets the event loop have its turn where it has waited for long. */
class Turns {
  readonly #clock: LoadClock
  #lastMs: number

  constructor(clock: LoadClock) {
    this.#clock = clock
    this.#lastMs = clock.nowMs()
  }

  /** @param now whether it has to be now: what is refused at once would else be asked for again at once. */
  async give(now: boolean): Promise<void> {
    if (!now && this.#clock.nowMs() - this.#lastMs < longestTurnMs) return
    await new Promise<void>((resolve) => this.#clock.nextTurn(resolve))
    this.#lastMs = this.#clock.nowMs()
  }
}

/** What became of the queries of one run. Moments are milliseconds since its start. */
export class RunRecord {
  /** Of answered samples, from when their query was scheduled. */
  readonly sampleLatenciesMs = new DurationList()
  /** Of queries of `multi-stream` that were answered whole, from their schedule to their last sample. */
  readonly queryLatenciesMs = new DurationList()
  /** How late queries of `server` were sent. */
  readonly sendLagMs = new DurationList()
  /** Samples that were not answered, by the codes of their errors. */
  readonly failures: Record<string, number> = {}
  /** Samples that were answered after the bound. */
  overCount = 0
  /** Samples that were not answered. */
  failureCount = 0
  queriesIssued = 0
  samplesIssued = 0
  /** Queries that have been answered, in whatever way. */
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

  /** A query is sent; its number. */
  issued(scheduledMs: number, issuedMs: number, samples: number): number {
    this.finalScheduledMs = scheduledMs
    this.finalIssuedMs = issuedMs
    if (this.#settings.scenario === 'server') this.sendLagMs.push(issuedMs - scheduledMs)
    this.samplesIssued += samples
    return this.queriesIssued++
  }

  /** All samples of a query have been answered, or have failed. */
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
 * `single-stream` and `multi-stream`: each query follows the one before, until the minimum of queries and of time is reached.
 * LoadGen draws up its queries beforehand and can run out of them; here they are drawn up as they are sent.
 */
async function issueInTurn(run: ScenarioRun): Promise<void> {
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

/**
 * `offline`: one query with all samples, each of them counted from the start. As a process cannot hold requests for millions
 * of samples at once, the next is asked for when one of `offlineWindow` has been answered: there is always more to do than
 * the engine has at hand. Settles when all have ended.
 *
 * @param sampleCount of the query; `null` where it goes on until the minimum of time and samples is reached.
 */
async function issueAtOnce(run: ScenarioRun, sampleCount: number | null): Promise<void> {
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

/** Sent without a turn of the event loop between them, when several are due: more would keep answers from coming. */
const mostPerTurn = 16

/** Queries waiting for their answers, beyond which a run ends: memory has an end, and such a run keeps no bound. */
const mostOutstanding = 200_000

/** `server`: queries are sent when they are due, whatever became of those before; settles when all have ended. */
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
      return isHopeless?.(record, clock.nowMs() - startMs) === true
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

/** Durations of a run, each of them: percentiles are exact, as LoadGen's are, at eight bytes a query. */
class DurationList {
  #values = new Float64Array(1024)
  #length = 0

  get length(): number {
    return this.#length
  }

  push(duration: number): void {
    if (this.#length === this.#values.length) {
      const longer = new Float64Array(2 * this.#length)
      longer.set(this.#values)
      this.#values = longer
    }
    this.#values[this.#length++] = duration
  }

  /** A copy, in ascending order. */
  ascending(): Float64Array {
    return this.#values.slice(0, this.#length).sort()
  }
}
