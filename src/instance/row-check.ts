import type { ModelMetadata, RowJoining, TensorMetadata } from '../metadata.ts'
import type { Padding } from '../request/padding.ts'
import { constantInput, other, rowRecipes, widened, without, type RowRecipe } from './row-recipes.ts'
import { sampleRow } from './row-samples.ts'
import { RowTrials, type RunTrial, type Sampled } from './row-trials.ts'
import { alike, sameInput, singleRows, type TrialFeeds } from './trial-feeds.ts'

/** What a check found; a `declared` model is checked like any other. */
export interface RowVerdict extends RowJoining {
  readonly rows: 'independent' | 'dependent' | 'unknown'
  /** Runs it took. */
  readonly runs: number
}

/** What the check of a model is given. */
export interface RowCheckSetup {
  /** Most rows of a run. */
  readonly maxBatchSize: number
  /** Single rows out of the warm-up samples. */
  readonly samples: readonly TrialFeeds[]
  readonly padding: Padding | null
  /** Indices of inputs that requests may leave out. */
  readonly optional: ReadonlySet<number>
  /** By how much floats may differ; see `compareOutput`. */
  readonly tolerance: number
  /** Whether a run that was to warm the model up is saved. */
  readonly replacesWarmUp: boolean
}

/** What a check may cost, in milliseconds ... */
const budgetMs = 40
/** ... and in runs of one row beside that. */
const budgetRuns = 4.15
/** After so many milliseconds by the clock, whoever used them, nothing but what tells most is tried. */
const patienceMs = 35
/** Sizes of joined runs that tell most, before all others in turn. */
const tellingSizes = [3, 5, 2, 4, 8]
/** The same for other values than the usual. */
const otherSizes = [5, 3, 2]
/** Rows of the largest joined run that is tried: only who asks for it gets a larger one, and is believed. */
const largestTried = 256
/** Rows to join: as many as can be afforded. */
const poolSizes = [8, 4, 3, 2]
/** Runs that a pool of so many rows should leave room for, its own included. */
const poolCost: Record<number, number> = { 8: 40, 4: 12, 3: 6, 2: 4 }

/**
 * Finds out by running whether rows depend on each other: made-up rows, and those of the warm-up samples, alone and then
 * joined in several sizes and orders, have to give the same. Rows are of very different scales, because one that reaches
 * into another shows best where that is small; they are drawn without order, as a sort would be hidden by it; and each
 * comes at several places, so that a count of rows shows. A model of short runs is tried with other kinds of values too, and
 * with every size up to its largest batch; one of long runs with what fits into about four runs and 50 ms.
 */
export async function checkRows(metadata: Pick<ModelMetadata, 'inputs' | 'outputs'>, setup: RowCheckSetup, run: RunTrial): Promise<RowVerdict> {
  const trials = new RowTrials(metadata.outputs, run, setup.tolerance)
  const inputs = metadata.inputs as readonly TensorMetadata[] // others have no rows, and are not checked
  const budget = setup.replacesWarmUp ? budgetRuns + 1 : budgetRuns
  const { recipe, pool } = await findRecipe(trials, inputs, setup, budget)
  await fillPool(trials, pool, inputs, recipe, setup.samples, budget)
  const maxBatchSize = Math.min(setup.maxBatchSize, largestTried)
  await joinPool(trials, pool, maxBatchSize, budget, [...tellingSizes, maxBatchSize])
  if (recipe !== null) await tryOthers(trials, inputs, recipe, setup, budget)
  if (trials.dependence === null) await joinPool(trials, pool, maxBatchSize, budget, sizesUpTo(maxBatchSize))
  return verdict(trials, recipe === null || setup.samples.length > 1 ? null : constantInput(inputs, recipe))
}

/** As {@link checkRows}, with requests that were made by callers. */
export async function checkRequests(
  metadata: Pick<ModelMetadata, 'inputs' | 'outputs'>,
  requests: readonly TrialFeeds[],
  largestBatch: number,
  tolerance: number,
  run: RunTrial,
): Promise<RowVerdict> {
  const maxBatchSize = Math.min(largestBatch, largestTried)
  const trials = new RowTrials(metadata.outputs, run, tolerance)
  const runAlone = async (all: readonly TrialFeeds[]): Promise<Sampled[]> => {
    const pool: Sampled[] = []
    for (const feeds of all) {
      const sampled = await trials.alone(feeds)
      if (sampled !== null) pool.push(sampled)
    }
    return pool
  }
  const pool = await runAlone(requests)
  const sizes = [...tellingSizes, maxBatchSize, ...sizesUpTo(maxBatchSize)]
  const allRows = pool.reduce((sum, { rows }) => sum + rows, 0)
  await joinPool(trials, pool, maxBatchSize, 2 * allRows + budgetRuns, sizes)
  // Requests of several rows may be independent of each other where their rows, which others may come in, are not.
  const several = trials.dependence === null && allRows > pool.length
  const rows = several ? await runAlone(requests.flatMap((feeds) => singleRows(feeds, 2))) : pool
  if (several) await joinPool(trials, rows, maxBatchSize, 3 * allRows + budgetRuns, sizes)
  const found = verdict(trials)
  if (found.rows !== 'independent') return found
  const same = sameInput(pool.map(({ feeds }) => feeds))
  if (same !== -1) return { ...found, rows: 'unknown', reason: `input '${metadata.inputs[same]!.name}' was the same in all requests that were compared` }
  if (rows.length > 1) return found
  return { ...found, rows: 'unknown', reason: `requests cannot be divided into rows: ${trials.failure}` }
}

/** @param constant an input that had the same value in all rows. */
function verdict({ largestDifference, dependence, untold, failure, runs }: RowTrials, constant: string | null = null): RowVerdict {
  const found = (rows: RowVerdict['rows'], reason: string) => ({ rows, largestDifference, reason, runs })
  if (dependence !== null) return found('dependent', dependence)
  if (largestDifference === null) return found('unknown', `there are no two requests that can be run: ${failure ?? 'too few were given'}`)
  if (untold !== null) return found('unknown', `output '${untold}' is the same for everything that was tried, which shows nothing`)
  if (constant !== null) return found('unknown', `input '${constant}' takes no values but one of those that were tried`)
  return found('independent', `the same rows gave the same alone and joined, in ${runs} runs`)
}

/** Runs of one row that are still to be had. */
function affordable({ rowMs, spentMs }: RowTrials, budget: number): number {
  return rowMs === Infinity ? Infinity : (budgetMs + budget * rowMs - spentMs) / Math.max(rowMs, 1e-3)
}

/** The first recipe whose rows can be run, with each input as varied as the model takes it, and what has been run. */
async function findRecipe(
  trials: RowTrials,
  inputs: readonly TensorMetadata[],
  { samples, padding, optional }: RowCheckSetup,
  budget: number,
): Promise<{ recipe: RowRecipe | null; pool: Sampled[] }> {
  const sample = samples[0] ?? null
  const sampled = sample && (await trials.alone(sample))
  const pool = sampled === null ? [] : [sampled]
  for (const recipe of rowRecipes(inputs, sample, padding, optional)) {
    const first = await trials.alone(sampleRow(inputs, recipe.rowDims, recipe.draws, 0))
    if (first !== null) {
      const best = await widen(trials, inputs, { recipe, first }, budget)
      return { recipe: best.recipe, pool: [best.first, ...pool.filter(({ feeds }) => alike(feeds, best.first.feeds))] }
    }
    if (trials.spentMs > budgetMs) break
  }
  return { recipe: null, pool }
}

interface Found {
  readonly recipe: RowRecipe
  readonly first: Sampled
}

async function widen(trials: RowTrials, inputs: readonly TensorMetadata[], found: Found, budget: number): Promise<Found> {
  let best = found
  for (const index of inputs.keys()) {
    for (const recipe of widened(inputs, best.recipe, index)) {
      if (affordable(trials, budget) < poolCost[2]!) return best
      const first = await trials.alone(sampleRow(inputs, recipe.rowDims, recipe.draws, 0))
      if (first === null) continue
      best = { recipe, first }
      break
    }
  }
  return best
}

/** Adds rows, made-up ones in turn with those of samples, as many as leave room for joining them. */
async function fillPool(
  trials: RowTrials,
  pool: Sampled[],
  inputs: readonly TensorMetadata[],
  recipe: RowRecipe | null,
  samples: readonly TrialFeeds[],
  budget: number,
): Promise<void> {
  for (let row = 1; row <= poolSizes[0]!; row++) {
    const candidates = [recipe && sampleRow(inputs, recipe.rowDims, recipe.draws, row), samples[row]]
    for (const feeds of candidates) {
      const wanted = poolSizes.find((size) => affordable(trials, budget) + pool.length >= poolCost[size]!) ?? 2
      if (pool.length >= wanted) return
      const sampled = feeds && pool.every((other) => alike(other.feeds, feeds)) ? await trials.alone(feeds) : null
      if (sampled !== null) pool.push(sampled)
    }
  }
}

/** Joins requests in several sizes and orders, as many as can be afforded and two of them at least. */
async function joinPool(
  trials: RowTrials,
  pool: readonly Sampled[],
  maxBatchSize: number,
  budget: number,
  sizes: readonly number[],
): Promise<void> {
  if (pool.length < 2) return
  for (const size of new Set(sizes)) {
    const batch = arranged(pool, size, maxBatchSize)
    if (batch.length !== size || size < 2) continue
    const rows = batch.reduce((sum, request) => sum + request.rows, 0)
    const first = size === 2 && trials.largestDifference === null
    if (rows > affordable(trials, budget) && !first) continue
    if (trials.elapsedMs > patienceMs && !tellingSizes.includes(size) && size !== maxBatchSize) continue
    if (!(await trials.joined(batch))) return
  }
  if (trials.largestDifference !== null) trials.tell(pool)
}

/** So many requests of a pool, each size in an order of its own; fewer where they do not fit into a run. */
function arranged(pool: readonly Sampled[], size: number, maxBatchSize: number): Sampled[] {
  const stride = size % 2 === 1 ? pool.length - 1 : pool.length % 3 === 0 ? 1 : 3 // none shares a factor with the pool's size
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

/** Sizes that were not tried among the first ones. */
function sizesUpTo(maxBatchSize: number): number[] {
  return Array.from({ length: maxBatchSize }, (_, index) => index + 1).filter((size) => size !== maxBatchSize && !tellingSizes.includes(size))
}

/** Particular values; then, with time left, values further apart, and requests without what may be left out. */
async function tryOthers(
  trials: RowTrials,
  inputs: readonly TensorMetadata[],
  recipe: RowRecipe,
  { optional, maxBatchSize }: RowCheckSetup,
  budget: number,
): Promise<void> {
  const [far, wide] = [other(inputs, recipe, 'far'), other(inputs, recipe, 'wide')]
  for (const { rowDims, draws } of [far, wide, ...(optional.size > 0 ? [without(recipe, optional)] : [])]) {
    if (trials.dependence !== null || affordable(trials, budget) < 2 * poolCost[4]!) return
    if (trials.elapsedMs > patienceMs && draws !== far.draws) return
    const pool: Sampled[] = []
    for (let row = 10; row < 15; row++) {
      const sampled = await trials.alone(sampleRow(inputs, rowDims, draws, row))
      if (sampled !== null) pool.push(sampled)
    }
    await joinPool(trials, pool, maxBatchSize, budget, otherSizes)
  }
}
