import type { LoadClock } from '../load/load-clock.ts'
import type { Pacer } from '../load/pacer.ts'
import { RunRecord } from './run-record.ts'
import type { SampleOrder } from './sample-order.ts'
import type { ScenarioSettings } from './scenario-settings.ts'

/** Asks for one sample, by its index; rejects when it is not answered. */
export type SendSample = (sampleIndex: number) => Promise<unknown>

/** One run of a scenario: what it is told, and what it notes. */
export interface ScenarioRun {
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
export async function issueQuery(
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
export function isOver({ settings, order, record, signal }: ScenarioRun): boolean {
  const { queriesIssued, finalIssuedMs } = record
  if (signal?.aborted === true || queriesIssued >= order.count) return true
  if (settings.maxQueryCount !== 0 && queriesIssued >= settings.maxQueryCount) return true
  return settings.maxDurationMs !== 0 && finalIssuedMs > settings.maxDurationMs
}

/** Answers that are there at once (out of a cache, say) would keep the event loop, and with it everything else, from its turn. */
const longestTurnMs = 5

/** Lets the event loop have its turn where it has waited for long. */
export class Turns {
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
