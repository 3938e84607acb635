import { divideEntries, entriesOf, indexColumn, shiftRows } from '../../request/output-rows.ts'
import type { Padding } from '../../request/padding.ts'
import type { SampleRun } from '../../run/executors/executor.ts'
import type { RowVerdict } from '../../schedule/joining.ts'
import { mailed, mailedElements } from '../../tensor/elements.ts'
import {
  batchAxisOf,
  type ModelMetadata,
  type TensorMetadata,
  type ValueMetadata,
} from '../../tensor/metadata.ts'
import { elementCount, type MailedTensor, type TensorData } from '../../tensor/tensor.ts'
import { cutRows, rowCount, type MailedValue } from '../../tensor/values.ts'
import { compareEntry, compareValue, valuesTellApart, type Comparison } from './compare-rows.ts'
import {
  constantInput,
  extremesLike,
  extremesOf,
  filledWith,
  hasOwnFloats,
  other,
  rowRecipes,
  sampleRow,
  widened,
  without,
  type RowRecipe,
} from './made-up-rows.ts'
import { alike, joinFeeds, rowsIn, sameInput, singleRows, type TrialFeeds } from './trial-feeds.ts'

type CheckedValues = Pick<ModelMetadata, 'inputs' | 'outputs'>

/** Input of a model's row check. */
export interface RowCheckSetup {
  /** Most rows of a run. */
  readonly maxBatchSize: number
  /** Single rows from the warm-up samples. */
  readonly samples: readonly TrialFeeds[]
  readonly padding: Padding | null
  /** Names of inputs that requests may leave out. */
  readonly optionalInputs: readonly string[]
  /** Allowed difference of floats; see `compareOutput`. */
  readonly tolerance: number
  /** Whether the result is only for a warning, so that the most revealing batch sizes are enough. */
  readonly isForWarning?: boolean
}

/** The most revealing batch sizes, tried first. */
const tellingSizes = [3, 5, 2, 4, 8]
/** The same for unusual values. */
const otherSizes = [5, 3, 2]
/**
 * Up to this size every batch size is tried (up to the second limit for a model with short runs); larger sizes grow by
 * half each time.
 */
const everySizeTo = 8
const everySizeOfShortRunsTo = 32
/** A run of at most this many milliseconds per row is short. */
const shortRunMs = 1
/** Rows of the largest batch tried; a larger one is used only if the user asks for it, without a check. */
const largestTried = 256
/** Most elements of an input in a batch. If two rows do not fit, nothing is checked. */
const mostElements = 2 ** 25
/**
 * A batch with a longer expected run, in milliseconds, is tried with only two or three requests, since it delays
 * others.
 */
const longestRunMs = 1000
const fewest = 3
/** Rows available for batches. */
const poolSize = 8

/**
 * Finds out by test runs whether rows depend on each other. Generated rows, and those of the warm-up samples, must give
 * the same results alone and in batches of several sizes and orders.
 *
 * - Rows of extreme scales come first: the influence of one row on another shows best where the other is small, or
 *   beyond a threshold.
 * - Other rows have usual scales and kinds, in no order, since sorted rows would hide a sort.
 * - Each row comes at several positions, so that a count of rows shows.
 *
 * The time is not limited here: the caller may run parts of it later.
 */
export async function checkRows(
  metadata: CheckedValues,
  setup: RowCheckSetup,
  run: RunTrial,
): Promise<RowVerdict> {
  const trials = new RowTrials(metadata, run, setup.tolerance)
  const { inputs } = trials
  const rowElements = Math.max(
    ...setup.samples.map(largestOfRow),
    ...inputs.map(({ shape }) =>
      elementCount(shape.slice(1).map((dim) => (typeof dim === 'number' ? dim : 1))),
    ),
  )
  if (2 * rowElements > mostElements)
    return {
      rows: 'unknown',
      largestDifference: null,
      reason: `an input has ${rowElements} elements for a row, and more than ${mostElements / 2} are not compared`,
      runs: 0,
    }
  const { recipe, pool } = await findRecipe(trials, setup)
  const maxBatchSize = (trials.maxBatchSize = largestOf(setup.maxBatchSize, pool[0]?.feeds))
  if (recipe !== null) await tryExtremes(trials, await trials.allAlone(extremesLike(inputs, recipe), true))
  await fillPool(trials, pool, recipe, setup.samples)
  await tryNotFinite(trials, pool)
  await joinPool(trials, pool, [...tellingSizes, maxBatchSize])
  if (recipe !== null) await tryOthers(trials, recipe, setup)
  if (setup.isForWarning !== true) await joinPool(trials, pool, sizesUpTo(maxBatchSize, trials.rowMs))
  return verdict(trials, recipe === null || setup.samples.length > 1 ? null : constantInput(inputs, recipe))
}

/**
 * As {@link checkRows}, with requests of callers whose rows all have the same dims: unchanged, split into rows, scaled
 * to extremes, and with generated floats of extreme scales next to their integers.
 */
export async function checkRequests(
  metadata: CheckedValues,
  requests: readonly TrialFeeds[],
  largestBatch: number,
  tolerance: number,
  run: RunTrial,
): Promise<RowVerdict> {
  const trials = new RowTrials(metadata, run, tolerance)
  const { inputs } = trials
  const maxBatchSize = (trials.maxBatchSize = largestOf(largestBatch, requests[0]))
  const pool = await trials.allAlone(requests)
  const single = requests.flatMap((feeds) => singleRows(feeds, 2))
  const extremes = await trials.allAlone(extremesOf(inputs, single), true)
  await tryExtremes(trials, extremes)
  await tryNotFinite(trials, extremes)
  const sizes = [...tellingSizes, maxBatchSize, ...sizesUpTo(maxBatchSize, trials.rowMs)]
  await joinPool(trials, pool, sizes)
  // Requests of several rows may be independent of each other although their rows are not. Other requests would be mixed
  // with those rows, so single rows are compared too.
  const several = trials.dependence === null && pool.some(({ rows }) => rows > 1)
  const rows = several ? await trials.allAlone(single) : pool
  if (several) await joinPool(trials, rows, sizes)
  const found = verdict(trials)
  if (found.rows !== 'independent') return found
  const unknown = (reason: string): RowVerdict => ({ ...found, rows: 'unknown', reason })
  if (rows.length < 2) return unknown('requests cannot be divided into rows')
  const same = sameInput(
    [...single, ...extremes.map(({ feeds }) => feeds)],
    (index) => batchAxisOf(inputs[index]!) !== -1,
  )
  if (same !== -1)
    return unknown(`input '${metadata.inputs[same]!.name}' was the same in all requests that were compared`)
  const hasFloats = inputs.some((input, index) => requests[0]![index] !== null && hasOwnFloats(input))
  return hasFloats && extremes.length < 2
    ? unknown('rows of other scales than those of the requests cannot be run')
    : found
}

/** @param constant an input with the same value in all rows. */
function verdict(
  { largestDifference, dependence, untold, anyFailed, runs }: RowTrials,
  constant: string | null = null,
): RowVerdict {
  const found = (rows: RowVerdict['rows'], reason: string) => ({ rows, largestDifference, reason, runs })
  if (dependence !== null) return found('dependent', dependence)
  if (largestDifference === null)
    return found(
      'unknown',
      anyFailed ? 'the model does not run on generated rows' : 'there are no two requests to compare',
    )
  if (untold !== null)
    return found(
      'unknown',
      `output '${untold}' is the same for everything that was tried, which shows nothing`,
    )
  if (constant !== null)
    return found('unknown', `input '${constant}' takes no values but one of those that were tried`)
  return found('independent', `the same rows gave the same alone and joined, in ${runs} runs`)
}

/** The first recipe whose rows run, with each input as varied as the model accepts, and the rows that have run. */
async function findRecipe(
  trials: RowTrials,
  { samples, padding, optionalInputs }: RowCheckSetup,
): Promise<{ recipe: RowRecipe | null; pool: Sampled[] }> {
  const { inputs } = trials
  const sample = samples[0] ?? null
  const sampled = sample && (await trials.alone(sample))
  const pool = sampled === null ? [] : [sampled]
  for (const recipe of rowRecipes(inputs, sample, padding, optionalInputs)) {
    let first = await trials.alone(sampleRow(inputs, recipe, 0))
    if (first === null) continue
    let widest = recipe
    for (const index of inputs.keys()) {
      for (const wider of widened(inputs, widest, index)) {
        const row = await trials.alone(sampleRow(inputs, wider, 0))
        if (row === null) continue
        first = row
        widest = wider
        break
      }
    }
    const { feeds } = first
    return { recipe: widest, pool: [first, ...pool.filter((other) => alike(other.feeds, feeds))] }
  }
  return { recipe: null, pool }
}

/** Batches rows of extreme scales, each with all others and in twos and threes, in both orders. */
async function tryExtremes(trials: RowTrials, pool: readonly Sampled[]): Promise<void> {
  const { maxBatchSize } = trials
  if (pool.length < 2) return
  const tried = new Set<string>()
  for (const size of new Set([Math.min(pool.length, maxBatchSize, mostRowsOf(trials)), 2, 3])) {
    if (size > maxBatchSize) continue
    for (const order of [pool, pool.toReversed()]) {
      for (let at = 0; at + 2 <= order.length; at += size) {
        const batch = order.slice(at, at + size)
        const places = batch.map((row) => pool.indexOf(row)).join()
        if (tried.has(places)) continue // the rest after threes may be a pair that was already tried
        tried.add(places)
        if (!(await trials.joined(batch))) return
      }
    }
  }
  trials.tell(pool)
}

/** Rows of a batch that takes not much longer than requests do. */
function mostRowsOf({ rowMs }: RowTrials): number {
  return Math.max(fewest, Math.floor(longestRunMs / rowMs))
}

/**
 * Batches infinite or NaN rows with others: this reveals a model that multiplies by 0 what it should leave out, or
 * tests for such values.
 */
async function tryNotFinite(trials: RowTrials, pool: readonly Sampled[]): Promise<void> {
  const [first, second] = pool.filter(({ rows }) => rows === 1)
  if (first === undefined || second === undefined || trials.maxBatchSize < 3 || trials.dependence !== null)
    return
  for (const value of [NaN, Infinity, -Infinity]) {
    const feeds = filledWith(trials.inputs, first.feeds, value)
    const odd = feeds === null ? null : await trials.alone(feeds, true)
    if (odd === null) continue
    for (const batch of [
      [first, odd, second],
      [odd, second, first],
    ])
      if (!(await trials.joined(batch))) return
  }
}

/** Adds rows, alternating generated ones with samples. */
async function fillPool(
  trials: RowTrials,
  pool: Sampled[],
  recipe: RowRecipe | null,
  samples: readonly TrialFeeds[],
): Promise<void> {
  if (trials.dependence !== null) return
  for (let row = 1; row <= poolSize; row++) {
    for (const feeds of [recipe && sampleRow(trials.inputs, recipe, row), samples[row]]) {
      if (pool.length >= poolSize) return
      const sampled =
        feeds && pool.every((present) => alike(present.feeds, feeds)) ? await trials.alone(feeds) : null
      if (sampled !== null) pool.push(sampled)
    }
  }
}

/** Batches requests in several sizes and orders. */
async function joinPool(
  trials: RowTrials,
  pool: readonly Sampled[],
  sizes: readonly number[],
): Promise<void> {
  if (pool.length < 2 || trials.dependence !== null) return
  for (const size of new Set(sizes)) {
    const batch = arranged(pool, size, trials.maxBatchSize)
    if (batch.length !== size || size < 2) continue
    if (size > fewest && batch.reduce((sum, { rows }) => sum + rows, 0) > mostRowsOf(trials)) continue
    if (!(await trials.joined(batch))) return
  }
  if (trials.largestDifference !== null) trials.tell(pool)
}

/** This many requests of a pool, each size in a different order; fewer if they do not fit into a run. */
function arranged(pool: readonly Sampled[], size: number, maxBatchSize: number): Sampled[] {
  const stride = size % 2 === 1 ? pool.length - 1 : pool.length % 3 === 0 ? 1 : 3 // none has a common factor with the pool size
  const batch: Sampled[] = []
  let rows = 0
  for (let place = 0; place < size; place++) {
    const request = pool[(size + place * stride) % pool.length]!
    rows += request.rows
    if (rows > maxBatchSize) break
    batch.push(request)
  }
  return batch
}

/** The largest batch to try, limited by memory. */
function largestOf(maxBatchSize: number, row: TrialFeeds | undefined): number {
  return Math.min(maxBatchSize, largestTried, Math.max(2, Math.floor(mostElements / largestOfRow(row ?? []))))
}

/** Elements of the largest input of a row. */
function largestOfRow(row: TrialFeeds): number {
  return Math.max(1, ...row.map((feed) => (feed === null ? 1 : elementCount(feed.dims.slice(1)))))
}

/**
 * Sizes other than the first ones tried.
 *
 * @param rowMs the shortest run of a row.
 */
function sizesUpTo(maxBatchSize: number, rowMs: number): number[] {
  const all = rowMs <= shortRunMs ? everySizeOfShortRunsTo : everySizeTo
  const sizes: number[] = []
  for (let size = 1; size < maxBatchSize; size = size < all ? size + 1 : Math.ceil(1.5 * size))
    sizes.push(size)
  return sizes.filter((size) => !tellingSizes.includes(size))
}

/** Particular values, then more widely spread ones, and requests without optional inputs. */
async function tryOthers(
  trials: RowTrials,
  recipe: RowRecipe,
  { optionalInputs }: RowCheckSetup,
): Promise<void> {
  const { inputs } = trials
  const recipes = [other(inputs, recipe, 'far'), other(inputs, recipe, 'wide')]
  if (inputs.some(({ name }) => optionalInputs.includes(name)))
    recipes.push(without(inputs, recipe, optionalInputs))
  for (const each of recipes) {
    if (trials.dependence !== null) return
    const rows = [10, 11, 12, 13, 14].map((row) => sampleRow(inputs, each, row))
    await joinPool(trials, await trials.allAlone(rows), otherSizes)
  }
}

/** Runs one request alone on an instance. */
export type RunTrial = (feeds: TrialFeeds) => Promise<SampleRun>

/** A request and its outputs when it ran alone. */
interface Sampled {
  readonly feeds: TrialFeeds
  readonly rows: number
  readonly outputs: readonly MailedValue[]
  /** Whether its scale is one at which sums lose digits, so that the batch size alone may change its result. */
  readonly isFar: boolean
}

/** Allowed difference of results computed by the same kernel. */
const sameWay = 1e-5

/** Runs requests alone and batched, and records the differences. */
class RowTrials {
  /** The largest relative difference seen; `null` before a batch ran. */
  largestDifference: number | null = null
  /** Why rows depend on each other; `null` if no run shows it. */
  dependence: string | null = null
  /** Whether some request could not be run alone. */
  anyFailed = false
  /** The shortest run of one row, in milliseconds; `Infinity` before any. */
  rowMs = Infinity
  /** Runs so far. */
  runs = 0
  /** Indices of outputs in which batched rows differed enough to reveal a mix-up. */
  readonly told = new Set<number>()
  /** Inputs of the model; values other than tensors have no rows, and are not checked. */
  readonly inputs: readonly TensorMetadata[]
  /** Most rows of a batch, once it is known how large a row is. */
  maxBatchSize = 0
  readonly #outputs: readonly ValueMetadata[]
  readonly #run: RunTrial
  readonly #tolerance: number

  /** @param tolerance allowed difference of floats; see `compareOutput`. */
  constructor({ inputs, outputs }: CheckedValues, run: RunTrial, tolerance: number) {
    this.inputs = inputs as readonly TensorMetadata[]
    this.#outputs = outputs
    this.#run = async (feeds) => {
      this.runs++
      return run(feeds)
    }
    this.#tolerance = tolerance
  }

  /** Runs a request alone; `null` if it cannot run. */
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

  /** Runs several requests alone, and drops those that cannot run. */
  async allAlone(requests: Iterable<TrialFeeds>, isFar = false): Promise<Sampled[]> {
    const pool: Sampled[] = []
    for (const feeds of requests) {
      const sampled = await this.alone(feeds, isFar)
      if (sampled !== null) pool.push(sampled)
    }
    return pool
  }

  /**
   * Runs requests as a batch; false if a result differs from that of a run alone, in which case {@link dependence} says
   * why.
   */
  async joined(requests: readonly Sampled[]): Promise<boolean> {
    const rows = requests.map((request) => request.rows)
    const { error, outputs } = await this.#run(joinFeeds(requests.map(({ feeds }) => feeds)))
    if (error !== null) return this.#differ(Infinity, 'requests that run alone fail when they are joined')
    let most = 0
    let wrong: string | null = null
    const shares = sharesOf(this.#outputs, rows, outputs)
    if (typeof shares === 'string') return this.#differ(Infinity, shares)
    for (const [index, { name }] of this.#outputs.entries()) {
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
      this.#outputs.every(({ name }, index) =>
        this.#isSame(name, requests[0]!.outputs[index]!, again.outputs[index]!),
      )
    return this.#differ(most, repeats ? wrong : 'the same request gives different outputs each time it runs')
  }

  /** Records the outputs in which these batched requests differ. */
  tell(requests: readonly Sampled[]): void {
    for (const [index, { rows }] of this.#outputs.entries()) {
      if (this.told.has(index)) continue
      const values = requests.map(({ outputs }) => outputs[index]!)
      const counts = rows !== undefined && values.some((value) => rowCount(value) !== rowCount(values[0]!))
      if (counts || valuesTellApart(values, this.#tolerance)) this.told.add(index)
    }
  }

  /** The first output that was the same in every run, so that it shows nothing; `null` for none. */
  get untold(): string | null {
    return this.#outputs.find((_, index) => !this.told.has(index))?.name ?? null
  }

  /**
   * Whether only rows of far scales differ, and each gives the same in its place of a batch of its own copies. The
   * cause is then the kernel for this batch size, which sums in another order, and not the other rows.
   */
  async #isBySizeAlone(requests: readonly Sampled[], joined: readonly MailedValue[]): Promise<boolean> {
    if (
      requests.some(({ rows }) => rows !== 1) ||
      joined.some((value) => rowCount(value) !== requests.length)
    )
      return false
    for (const [place, request] of requests.entries()) {
      const own = joined.map((value) => cutRows(value, place, place + 1))
      if (this.#outputs.every(({ name }, index) => this.#isSame(name, request.outputs[index]!, own[index]!)))
        continue
      if (!request.isFar) return false
      const copies = await this.#run(joinFeeds(requests.map(() => request.feeds)))
      if (copies.error !== null || copies.outputs.some((value) => rowCount(value) !== requests.length))
        return false
      const isOfSize = this.#outputs.every(
        ({ name }, index) =>
          compareEntry(name, cutRows(copies.outputs[index]!, place, place + 1), own[index]!, sameWay)
            .reason === null,
      )
      if (!isOfSize) return false
    }
    return true
  }

  /** Whether an output of a repeated request is the same, whatever its first dimension counts. */
  #isSame(name: string, first: MailedValue, again: MailedValue): boolean {
    return compareEntry(name, first, again, this.#tolerance).reason === null
  }

  #differ(difference: number, reason: string): boolean {
    this.largestDifference = Math.max(this.largestDifference ?? 0, difference)
    this.dependence = reason
    return false
  }
}

/**
 * The share of each request in outputs that do not have one entry per row, by output; `null` for other outputs. A text
 * that says what is wrong if they cannot be split.
 */
function sharesOf(
  outputs: readonly ValueMetadata[],
  rows: readonly number[],
  values: readonly MailedValue[],
): (readonly MailedValue[] | null)[] | string {
  const tensorOf = (index: number) => {
    const tensor = values[index] as MailedTensor // only tensors are declared so
    return { ...tensor, data: mailedElements(tensor) }
  }
  try {
    const divisions = divideEntries(outputs, rows, tensorOf)
    return divisions.map((division, index) => {
      if (division === null) return null
      const column = indexColumn(outputs[index]!.rows)
      let row = 0
      return rows.map((count, request): MailedTensor => {
        const { type, dims, data } = entriesOf(tensorOf(index), division, request)
        if (column !== null) shiftRows({ type, dims, data }, column, -row)
        row += count
        return mailed(type, dims, data as TensorData | string[])
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
