import { codeOf } from '../load/recorder.ts'
import { DurationList } from './duration-list.ts'
import type { ScenarioSettings } from './scenario-settings.ts'

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
