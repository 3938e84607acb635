import type { SampleRun } from '../executor/executor.ts'
import { mailedElements } from '../elements.ts'
import type { ValueMetadata } from '../metadata.ts'
import { divideEntries, entriesOf, indexColumn, shiftRows } from '../request/divided-entries.ts'
import type { MailedTensor } from '../tensor.ts'
import { rowCount, tensorsIn, type MailedValue } from '../values.ts'
import type { Comparison } from './compare-rows.ts'
import { compareEntry, compareValue, valuesTellApart } from './compare-values.ts'
import { joinFeeds, rowsIn, type TrialFeeds } from './trial-feeds.ts'

/** Runs a request by itself on an instance. */
export type RunTrial = (feeds: TrialFeeds) => Promise<SampleRun>

/** A request with what it gave alone. */
export interface Sampled {
  readonly feeds: TrialFeeds
  readonly rows: number
  readonly outputs: readonly MailedValue[]
}

/** What a message to a worker and back costs, in milliseconds ... */
const messageMs = 0.2
/** ... and each MiB in it, made up, joined, copied and compared. */
const mebibyteMs = 3
/** A run that takes so many times what its rows took alone was held up by something else. */
const heldUpTimes = 3

/** Runs requests alone and joined, and keeps book: of what it cost, and of how far the answers differed. */
export class RowTrials {
  /** The largest relative difference seen; `null` before a joined run. */
  largestDifference: number | null = null
  /** Why rows depend on each other, in words; `null` while nothing shows it. */
  dependence: string | null = null
  /** ONNX Runtime's message for the last request that could not be run alone. */
  failure: string | null = null
  /** What the trials took so far, in milliseconds. */
  spentMs = 0
  /** The shortest run of one row, in milliseconds; `Infinity` before any. */
  rowMs = Infinity
  /** Runs so far. */
  runs = 0
  /** Outputs, by index, in which rows that were joined differ by enough for a mix-up to show. */
  readonly told = new Set<number>()
  readonly #startMs = performance.now()
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
    this.#run = run
    this.#tolerance = tolerance
  }

  /** Since the first trial, in milliseconds. */
  get elapsedMs(): number {
    return performance.now() - this.#startMs
  }

  /** Runs a request alone; `null` when it cannot be run. */
  async alone(feeds: TrialFeeds): Promise<Sampled | null> {
    const rows = rowsIn(feeds)
    const { error, runMs, outputs } = await this.#timed(feeds, rows)
    if (error === null) {
      this.rowMs = Math.min(this.rowMs, (runMs + carryingMs(feeds) + carryingMs(outputs)) / Math.max(1, rows))
      return { feeds, rows, outputs }
    }
    this.failure = error
    return null
  }

  /** Runs requests joined; false when an answer is not what it was alone, after which {@link dependence} says why. */
  async joined(requests: readonly Sampled[]): Promise<boolean> {
    const rows = requests.map((request) => request.rows)
    const { error, outputs } = await this.#timed(joinFeeds(requests.map(({ feeds }) => feeds)), rows.reduce((sum, count) => sum + count, 0))
    if (error !== null) return this.#differ(Infinity, `requests that run alone fail when joined: ${error}`)
    let most = 0
    let wrong: string | null = null
    const shares = sharesOf(this.#outputs, rows, outputs)
    if (typeof shares === 'string') return this.#differ(Infinity, shares)
    for (const [index, name] of this.#names.entries()) {
      const alone = requests.map((request) => request.outputs[index]!)
      const own = shares[index] ?? null
      const { difference, reason } =
        own === null ? compareValue(name, alone, rows, outputs[index]!, this.#tolerance) : worst(own.map((share, request) => compareEntry(name, alone[request]!, share, this.#tolerance)))
      most = Math.max(most, difference)
      wrong ??= reason
    }
    if (wrong === null) {
      this.largestDifference = Math.max(this.largestDifference ?? 0, most)
      return true
    }
    const again = await this.#timed(requests[0]!.feeds, rows[0]!)
    const repeats = again.error === null && this.#names.every((name, index) => this.#isSame(name, requests[0]!.outputs[index]!, again.outputs[index]!))
    return this.#differ(most, repeats ? wrong : 'the same request gives other outputs each time it is run')
  }

  /** Notes which outputs tell these requests, which were joined, apart. */
  tell(requests: readonly Sampled[]): void {
    for (const index of this.#names.keys()) {
      if (this.told.has(index)) continue
      const values = requests.map(({ outputs }) => outputs[index]!)
      const counts = this.#outputs[index]!.rows !== undefined && values.some((value) => rowCount(value) !== rowCount(values[0]!))
      if (counts || valuesTellApart(values, this.#tolerance)) this.told.add(index)
    }
  }

  /** The first output that is the same whatever was run, so that nothing is known of it; `null` for none. */
  get untold(): string | null {
    return this.#names.find((_, index) => !this.told.has(index)) ?? null
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

  async #timed(feeds: TrialFeeds, rows: number): Promise<SampleRun> {
    const result = await this.#run(feeds)
    this.runs++
    const expectedMs = this.rowMs === Infinity ? Infinity : heldUpTimes * rows * this.rowMs
    this.spentMs += messageMs + Math.min(result.runMs + carryingMs(feeds) + carryingMs(result.outputs), expectedMs)
    return result
  }
}

/** What each request has of outputs that have not one entry per row, by output; `null` for another one. What is wrong with them, in words, where they cannot be divided. */
function sharesOf(outputs: readonly ValueMetadata[], rows: readonly number[], values: readonly MailedValue[]): (readonly MailedValue[] | null)[] | string {
  const tensorOf = (index: number) => values[index] as MailedTensor // of others nobody says so
  try {
    const divisions = divideEntries(outputs, rows, (index) => ({ ...tensorOf(index), data: mailedElements(tensorOf(index)) }))
    return divisions.map((division, index) => {
      if (division === null) return null
      const column = indexColumn(outputs[index]!.rows)
      let row = 0
      return rows.map((count, request): MailedTensor => {
        const { type, dims, data } = entriesOf({ ...tensorOf(index), data: mailedElements(tensorOf(index)) }, division, request)
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
  return { difference: Math.max(0, ...compared.map(({ difference }) => difference)), reason: compared.find(({ reason }) => reason !== null)?.reason ?? null }
}

function carryingMs(values: readonly (MailedValue | null)[]): number {
  let bytes = 0
  for (const value of values) for (const { data } of value ? tensorsIn(value) : []) if (data instanceof ArrayBuffer) bytes += data.byteLength
  return (bytes / 2 ** 20) * mebibyteMs
}
