import type { Configuration } from './configuration.ts'

/** How many instances a model has, and the threads of each. */
export interface Layout {
  readonly instances: number
  readonly threads: number
}

/** The values that are searched; what is left out is chosen by the machine and by what runs take. */
export interface SearchSpace {
  readonly instances?: readonly number[] | undefined
  readonly threads?: readonly number[] | undefined
  /** Most rows in one run. */
  readonly batchSizes?: readonly number[] | undefined
  readonly delaysMs?: readonly number[] | undefined
  /** Most that a batch may cost, 0 for no limit; of a model that says what requests cost. */
  readonly batchCosts?: readonly number[] | undefined
}

/** Largest batch that is tried unless the user names others. */
const largestBatch = 128
/** Delays, as parts of what a run of the largest batch takes. */
const delayShares = [0.25, 1]

/**
 * Layouts that keep at most the machine's cores busy, those that keep all of them first. Where instances or threads are named
 * all of these are taken, whatever they come to.
 */
export function layoutsOf({ instances, threads }: SearchSpace, cores: number): Layout[] {
  const counts = [...new Set([...powersOf2(cores), cores])]
  const layouts: Layout[] = []
  for (const count of instances ?? counts) {
    const fitting = [...new Set([...counts, Math.floor(cores / count)])].filter(
      (each) => each >= 1 && each * count <= cores,
    )
    for (const each of threads ?? (fitting.length > 0 ? fitting : [1]))
      layouts.push({ instances: count, threads: each })
  }
  const idle = ({ instances: count, threads: each }: Layout) => Math.abs(cores - count * each)
  return layouts.sort((a, b) => idle(a) - idle(b) || a.instances - b.instances || a.threads - b.threads)
}

/** Batch sizes to try, ascending; `[0]` for a model whose requests are not joined. */
export function batchSizesOf(
  { batchSizes }: SearchSpace,
  isJoined: boolean,
  rowsPerRequest: number,
): number[] {
  if (!isJoined) return [0]
  const sizes = batchSizes ?? powersOf2(largestBatch)
  const enough = sizes.filter((size) => size >= rowsPerRequest)
  return [...new Set(enough.length > 0 ? enough : [rowsPerRequest])].sort((a, b) => a - b)
}

/** Delays to try for batches whose run takes so long, 0 first. Nothing waits for a batch of one request. */
export function delaysOf(
  { delaysMs }: SearchSpace,
  {
    maxBatchSize,
    runMs,
    rowsPerRequest,
  }: { readonly maxBatchSize: number; readonly runMs: number; readonly rowsPerRequest: number },
): number[] {
  if (maxBatchSize < 2 * rowsPerRequest) return [0]
  return [...new Set(delaysMs ?? [0, ...delayShares.map((share) => roundNumber(runMs * share))])].sort(
    (a, b) => a - b,
  )
}

/** Callers that always leave a full batch waiting while another runs, on each instance. */
export function saturating({ instances, maxBatchSize }: Configuration, rowsPerRequest: number): number {
  return 2 * instances * Math.max(1, Math.floor(maxBatchSize / rowsPerRequest))
}

function powersOf2(most: number): number[] {
  return Array.from({ length: Math.floor(Math.log2(most)) + 1 }, (_, exponent) => 2 ** exponent)
}

/** The nearest of 1, 2 and 5 times a power of ten. */
export function roundNumber(value: number): number {
  if (!(value > 0)) return 0
  const power = 10 ** Math.floor(Math.log10(value))
  const nearest = [1, 2, 5, 10].reduce((best, step) =>
    Math.abs(Math.log((step * power) / value)) < Math.abs(Math.log((best * power) / value)) ? step : best,
  )
  return Number((nearest * power).toPrecision(1))
}
