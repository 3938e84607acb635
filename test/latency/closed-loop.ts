import type { BatchLimits } from '../../src/options/batching.ts'
import { LoadDivision } from '../../src/schedule/load-division.ts'
import { PriorityLevels } from '../../src/request/infer-request.ts'
import { WaitingRequest } from '../queue/waiting-request.ts'
import { RequestQueue } from '../../src/schedule/request-queue.ts'
import { VirtualClock } from '../../packages/perf/src/simulation/virtual-clock.ts'
import { noPolicy } from '../queue/recorder.ts'

interface Handed {
  readonly entries: WaitingRequest[]
  readonly takenAtMs: number
  readonly endMs: number
}

/** Callers in turn, all on one thread that has each answer and each call take its time, before the real queue and one worker. */
export class ClosedLoop {
  readonly clock = new VirtualClock()
  readonly division: LoadDivision | null
  callers: number
  answerMs = 0.001
  callMs = 0.001
  runMs: (rows: number) => number
  /** Rows of each batch that has run. */
  readonly sizes: number[] = []
  /** When each request was answered, and after that how long it took: there are millions. */
  readonly #answers: number[] = []
  readonly #queue: RequestQueue<WaitingRequest>
  readonly #level = new PriorityLevels({
    priorityLevels: 0,
    defaultPriorityLevel: 0,
    defaultPolicy: noPolicy,
    policies: new Map(),
  }).of(undefined)
  /** The one that runs, and the one that was handed ahead. */
  #handed: Handed[] = []

  constructor(limits: BatchLimits, callers: number, runMs: (rows: number) => number, divides = true) {
    this.division = divides ? new LoadDivision(limits) : null
    this.callers = callers
    this.runMs = runMs
    const owner = { dropped: () => {}, revoke: () => false, wake: () => this.#offer() }
    this.#queue = new RequestQueue<WaitingRequest>(
      { ...limits, holdUntilQueued: 0 },
      this.clock,
      owner,
      null,
      this.division,
    )
    this.#call(callers)
  }

  until(ms: number): this {
    while (this.clock.nowMs() < ms) {
      if (this.#handed.length === 0) this.clock.fireNext()
      else this.#finish()
    }
    return this
  }

  /** Requests per millisecond, and what 99 of 100 of them took at most, and all, between two moments. */
  figures(fromMs: number, toMs: number): { perMs: number; p99Ms: number; longestMs: number } {
    const answers = this.#answers
    const kept = new Float64Array(answers.length / 2)
    let count = 0
    for (let at = 0; at < answers.length; at += 2)
      if (answers[at]! >= fromMs && answers[at]! < toMs) kept[count++] = answers[at + 1]!
    const tookMs = kept.subarray(0, count).sort()
    return {
      perMs: tookMs.length / (toMs - fromMs),
      p99Ms: tookMs[Math.floor(0.99 * tookMs.length)]!,
      longestMs: tookMs.at(-1)!,
    }
  }

  #finish(): void {
    const { entries, takenAtMs, endMs } = this.#handed.shift()!
    this.clock.advanceTo(Math.max(this.clock.nowMs(), endMs))
    if (this.#handed.length > 0) this.#queue.started(this.#handed[0]!.entries)
    this.#offer()
    this.sizes.push(entries.length)
    const others = this.#queue.count + this.#handed.length
    if (
      this.division?.finished(
        entries.length,
        entries.length,
        takenAtMs,
        others,
        this.#queue.rows,
        this.clock.nowMs(),
      )
    )
      this.#queue.resize()
    for (const { enqueuedAtMs } of entries) {
      this.#passes(this.answerMs)
      this.#answers.push(this.clock.nowMs(), this.clock.nowMs() - enqueuedAtMs)
    }
    const under = this.#queue.count + (this.#handed[0]?.entries.length ?? 0)
    this.#call(Math.max(0, this.callers - under))
  }

  #call(count: number): void {
    for (let call = 0; call < count; call++) {
      this.#passes(this.callMs)
      if (this.#queue.enqueue(new WaitingRequest(1, '', this.#level), this.clock.nowMs())) this.#offer()
    }
    this.#offer()
  }

  #passes(ms: number): void {
    this.clock.advanceTo(this.clock.nowMs() + ms)
  }

  #offer(): void {
    while (this.#handed.length < 2) {
      const [running] = this.#handed
      const nowMs = this.clock.nowMs()
      const formed = this.#queue.take(
        running === undefined,
        running === undefined ? 0 : Math.max(0, running.endMs - nowMs),
      )
      if (formed === null) return
      const startMs = Math.max(nowMs, running?.endMs ?? 0)
      this.#handed.push({
        entries: formed.entries,
        takenAtMs: nowMs,
        endMs: startMs + this.runMs(formed.entries.length),
      })
    }
  }
}
