import type { Arrival, ArrivalRun } from 'zerohop/internals'
import { countUpTo } from './count-up-to.ts'
import { firstGivenUs } from './followers.ts'

/** A run, and the request that it was noted with. */
export interface NotedRun {
  readonly run: ArrivalRun
  readonly arrival: Arrival
  /** Its number. */
  readonly request: number
  /** Which of its runs, where it was split. */
  readonly part: number
}

/** Times are written to a tenth of a microsecond, and several of them are added. */
const roundingUs = 0.3

/** What the application's thread did for the runs of a recording, and when: it did one thing after the other. */
export class RecordedThread {
  readonly #cameUs: readonly number[]
  /** When answers were given, ascending. */
  readonly #answeredUs: readonly number[]
  /** When it closed batches, gathered them, and ran them if it did so itself. */
  readonly #taking: Spans
  /** When it handed outputs out and gave answers. */
  readonly #giving: Spans

  constructor(arrivals: readonly Arrival[], runs: readonly NotedRun[]) {
    this.#cameUs = arrivals.map(({ atUs }) => atUs)
    this.#answeredUs = arrivals
      .flatMap(({ atUs, latencyUs }) => (latencyUs === undefined ? [] : [atUs + latencyUs]))
      .sort((a, b) => a - b)
    this.#taking = new Spans(
      runs.map(({ run }) => [run.takenAtUs, run.inline === true ? endUs(run) : run.takenAtUs + run.gatherUs]),
    )
    this.#giving = new Spans(
      runs.map((noted) => [endUs(noted.run) + noted.run.wakeUs, this.#lastGivenUs(noted)]),
    )
  }

  /** Batches that were out at a moment, as far as it knew. */
  outAt(atUs: number): number {
    return this.#taking.begunBy(atUs) - this.#giving.begunBy(atUs)
  }

  /** How long it took to do something about the end of a run, were it not busy: to take the next batch, or hand the outputs out. */
  wakeUs(run: ArrivalRun): number {
    const toldUs = this.#toldUs(run)
    return Math.max(
      0,
      toldUs - Math.max(endUs(run), this.#taking.lastEndUs(toldUs), this.#giving.lastEndUs(toldUs)),
    )
  }

  /** From there until the first answer was given, but for the batches that it took before. */
  scatterUs({ run, arrival }: NotedRun): number {
    const fromUs = this.#toldUs(run)
    const untilUs = firstGivenUs(arrival, run)
    return Math.max(0, untilUs - fromUs - this.#taking.withinUs(fromUs, untilUs))
  }

  /** From one answer of a run to the next; `null` where there was one. */
  answerUs(noted: NotedRun): number | null {
    const { requests } = noted.run
    return requests === 1
      ? null
      : (this.#lastGivenUs(noted) - firstGivenUs(noted.arrival, noted.run)) / (requests - 1)
  }

  /** From the request that filled a batch until it was closed; `null` for one that was not closed on a request. */
  closingUs({ run, request }: NotedRun, instances: number): number | null {
    const { reason, takenAtUs, requests } = run
    const last = countUpTo(this.#cameUs, takenAtUs) - 1
    if ((reason !== 'full' && reason !== 'preferred') || last !== request + requests - 1) return null
    const cameUs = this.#cameUs[last]!
    return this.outAt(cameUs) < 2 * instances ? takenAtUs - cameUs : null
  }

  #toldUs(run: ArrivalRun): number {
    const ranUs = endUs(run)
    return run.inline === true ? ranUs : Math.min(ranUs + run.wakeUs, this.#taking.nextUs(ranUs))
  }

  /** All answers of a run are given before anything else is done. */
  #lastGivenUs({ run, arrival }: NotedRun): number {
    const firstUs = firstGivenUs(arrival, run)
    const lastUs =
      this.#answeredUs[countUpTo(this.#answeredUs, firstUs - roundingUs) + run.requests - 1] ?? firstUs
    return lastUs > this.#taking.nextUs(firstUs) ? firstUs : Math.max(firstUs, lastUs)
  }
}

/** What a thread did, one after the other. */
class Spans {
  readonly #fromUs: readonly number[]
  readonly #untilUs: readonly number[]

  constructor(spans: readonly (readonly [fromUs: number, untilUs: number])[]) {
    const sorted = spans.toSorted(([a], [b]) => a - b)
    this.#fromUs = sorted.map(([fromUs]) => fromUs)
    this.#untilUs = sorted.map(([, untilUs]) => untilUs)
  }

  /** How many had begun. */
  begunBy(atUs: number): number {
    return countUpTo(this.#fromUs, atUs)
  }

  /** When the next one begins after a moment; `Infinity` for none. */
  nextUs(atUs: number): number {
    return this.#fromUs[this.begunBy(atUs)] ?? Infinity
  }

  /** When the last one ended that had begun before a moment, that moment at the latest. */
  lastEndUs(atUs: number): number {
    return Math.min(atUs, this.#untilUs[this.begunBy(atUs - roundingUs) - 1] ?? 0)
  }

  /** What was done from one moment to another, in all. */
  withinUs(fromUs: number, untilUs: number): number {
    let us = 0
    for (
      let at = this.begunBy(fromUs - roundingUs);
      at < this.#fromUs.length && this.#fromUs[at]! < untilUs;
      at++
    )
      us += this.#untilUs[at]! - this.#fromUs[at]!
    return us
  }
}

function endUs({ takenAtUs, gatherUs, handOverUs, runUs }: ArrivalRun): number {
  return takenAtUs + gatherUs + handOverUs + runUs
}
