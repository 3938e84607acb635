import type { SampleRun } from '../../run/executors/executor.ts'
import type { MailedTensor } from '../../tensor/tensor.ts'
import { mailedElements } from '../../tensor/elements.ts'
import type { ValueMetadata } from '../../tensor/metadata.ts'
import { divideEntries, entriesOf, indexColumn, shiftRows } from '../../request/output-rows.ts'
import { cutRows, rowCount, type MailedValue } from '../../tensor/values.ts'
import type { Comparison } from './compare-rows.ts'
import { compareEntry, compareValue, valuesTellApart } from './compare-values.ts'
import { joinFeeds, rowsIn, type TrialFeeds } from '../../run/trial-feeds.ts'

/** Runs a request by itself on an instance. */
export type RunTrial = (feeds: TrialFeeds) => Promise<SampleRun>

/** A request with what it gave alone. */
export interface Sampled {
  readonly feeds: TrialFeeds
  readonly rows: number
  readonly outputs: readonly MailedValue[]
  /** Whether it is of a scale at which sums lose digits, so that it may differ by the size of a batch alone. */
  readonly isFar: boolean
}

/** By how much what is computed in the same way may differ. */
const sameWay = 1e-5

/** Runs requests alone and joined, and keeps book of how far the answers differed. */
export class RowTrials {
  /** The largest relative difference seen; `null` before a joined run. */
  largestDifference: number | null = null
  /** Why rows depend on each other, in words; `null` while nothing shows it. */
  dependence: string | null = null
  /** Whether some request could not be run alone. */
  anyFailed = false
  /** The shortest run of one row, in milliseconds; `Infinity` before any. */
  rowMs = Infinity
  /** Runs so far. */
  runs = 0
  /** Outputs, by index, in which rows that were joined differ by enough for a mix-up to show. */
  readonly told = new Set<number>()
  readonly #outputs: readonly ValueMetadata[]
  readonly #names: readonly string[]
  readonly #run: RunTrial
  readonly #tolerance: number

  /**
   * @param outputs of the model.
   * @param tolerance by how much floats may differ; see `compareOutput`.
   */
  constructor(outputs: readonly ValueMetadata[], run: RunTrial, tolerance: number) {
    this.#outputs = outputs
    this.#names = outputs.map(({ name }) => name)
    this.#run = async (feeds) => {
      this.runs++
      return run(feeds)
    }
    this.#tolerance = tolerance
  }

  /** Runs a request alone; `null` when it cannot be run. */
  async alone(feeds: TrialFeeds, isFar = false): Promise<Sampled | null> {
    const { error, outputs, runMs } = await this.#run(feeds)
    if (error !== null) {
      this.anyFailed = true
      return null
    }
    const rows = rowsIn(feeds)
    this.rowMs = Math.min(this.rowMs, runMs / Math.max(1, rows))
    return { feeds, rows, outputs, isFar }
  }

  /** The same for several, without those that cannot be run. */
  async allAlone(requests: Iterable<TrialFeeds>, isFar = false): Promise<Sampled[]> {
    const pool: Sampled[] = []
    for (const feeds of requests) {
      const sampled = await this.alone(feeds, isFar)
      if (sampled !== null) pool.push(sampled)
    }
    return pool
  }

  /** Runs requests joined; false when an answer is not what it was alone, after which {@link dependence} says why. */
  async joined(requests: readonly Sampled[]): Promise<boolean> {
    const rows = requests.map((request) => request.rows)
    const { error, outputs } = await this.#run(joinFeeds(requests.map(({ feeds }) => feeds)))
    if (error !== null) return this.#differ(Infinity, 'requests that run alone fail when they are joined')
    let most = 0
    let wrong: string | null = null
    const shares = sharesOf(this.#outputs, rows, outputs)
    if (typeof shares === 'string') return this.#differ(Infinity, shares)
    for (const [index, name] of this.#names.entries()) {
      const alone = requests.map((request) => request.outputs[index]!)
      const own = shares[index] ?? null
      const { difference, reason } =
        own === null
          ? compareValue(name, alone, rows, outputs[index]!, this.#tolerance)
          : worst(own.map((share, request) => compareEntry(name, alone[request]!, share, this.#tolerance)))
      most = Math.max(most, difference)
      wrong ??= reason
    }
    if (wrong === null || (await this.#isBySizeAlone(requests, outputs))) {
      this.largestDifference = Math.max(this.largestDifference ?? 0, wrong === null ? most : 0)
      return true
    }
    const again = await this.#run(requests[0]!.feeds)
    const repeats =
      again.error === null &&
      this.#names.every((name, index) =>
        this.#isSame(name, requests[0]!.outputs[index]!, again.outputs[index]!),
      )
    return this.#differ(most, repeats ? wrong : 'the same request gives other outputs each time it is run')
  }

  /** Notes which outputs tell these requests, which were joined, apart. */
  tell(requests: readonly Sampled[]): void {
    for (const index of this.#names.keys()) {
      if (this.told.has(index)) continue
      const values = requests.map(({ outputs }) => outputs[index]!)
      const counts =
        this.#outputs[index]!.rows !== undefined &&
        values.some((value) => rowCount(value) !== rowCount(values[0]!))
      if (counts || valuesTellApart(values, this.#tolerance)) this.told.add(index)
    }
  }

  /** The first output that is the same whatever was run, so that nothing is known of it; `null` for none. */
  get untold(): string | null {
    return this.#names.find((_, index) => !this.told.has(index)) ?? null
  }

  /**
   * Whether all that differs in a batch is rows of far scales, each of which gives the same in its place among as many copies of itself:
   * then it is the kernel for so many rows that sums in another order, and not the other rows that reach it.
   */
  async #isBySizeAlone(requests: readonly Sampled[], joined: readonly MailedValue[]): Promise<boolean> {
    if (
      requests.some(({ rows }) => rows !== 1) ||
      joined.some((value) => rowCount(value) !== requests.length)
    )
      return false
    for (const [place, request] of requests.entries()) {
      const own = joined.map((value) => cutRows(value, place, place + 1))
      if (this.#names.every((name, index) => this.#isSame(name, request.outputs[index]!, own[index]!)))
        continue
      if (!request.isFar) return false
      const copies = await this.#run(joinFeeds(requests.map(() => request.feeds)))
      if (copies.error !== null || copies.outputs.some((value) => rowCount(value) !== requests.length))
        return false
      const isOfSize = this.#names.every(
        (name, index) =>
          compareEntry(name, cutRows(copies.outputs[index]!, place, place + 1), own[index]!, sameWay)
            .reason === null,
      )
      if (!isOfSize) return false
    }
    return true
  }

  /** Whether an output of a request that was run once more is the same, whatever its first dimension counts. */
  #isSame(name: string, first: MailedValue, again: MailedValue): boolean {
    return compareEntry(name, first, again, this.#tolerance).reason === null
  }

  #differ(difference: number, reason: string): boolean {
    this.largestDifference = Math.max(this.largestDifference ?? 0, difference)
    this.dependence = reason
    return false
  }
}

/** What each request has of outputs that have not one entry per row, by output; `null` for another one. What is wrong with them, in words, where they cannot be divided. */
function sharesOf(
  outputs: readonly ValueMetadata[],
  rows: readonly number[],
  values: readonly MailedValue[],
): (readonly MailedValue[] | null)[] | string {
  const tensorOf = (index: number) => values[index] as MailedTensor // no other value is declared so
  try {
    const divisions = divideEntries(outputs, rows, (index) => ({
      ...tensorOf(index),
      data: mailedElements(tensorOf(index)),
    }))
    return divisions.map((division, index) => {
      if (division === null) return null
      const column = indexColumn(outputs[index]!.rows)
      let row = 0
      return rows.map((count, request): MailedTensor => {
        const { type, dims, data } = entriesOf(
          { ...tensorOf(index), data: mailedElements(tensorOf(index)) },
          division,
          request,
        )
        if (column !== null) shiftRows({ type, dims, data }, column, -row)
        row += count
        return { type, dims, data: ArrayBuffer.isView(data) ? (data.buffer as ArrayBuffer) : data }
      })
    })
  } catch (error) {
    return (error as Error).message
  }
}

function worst(compared: readonly Comparison[]): Comparison {
  return {
    difference: Math.max(0, ...compared.map(({ difference }) => difference)),
    reason: compared.find(({ reason }) => reason !== null)?.reason ?? null,
  }
}
