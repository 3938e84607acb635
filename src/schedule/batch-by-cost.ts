import type { BatchReason, CostLimits } from '../options/batching.ts'
import type { InferRequest } from '../request/infer-request.ts'
import type { WaitingLine } from './buckets.ts'

/** Of what a batch is best made. */
interface ChosenByCost<E> {
  /** The one that has waited longest, then each one after those with which it goes. */
  readonly entries: E[]
  /** What kept the next one out: rows (`full`), `cost`, or too much padding (`bucket`); `null` when all that wait are in. */
  readonly closedBy: BatchReason | null
}

type Lines<E extends InferRequest> = readonly WaitingLine<E>[]

/**
 * Makes a batch by what it will cost, around the request to be served first. Where rows are not filled up that is in the order
 * of arrival. Where they are, those join that add least padding: of the longer ones the shortest, of the shorter ones the
 * longest, and of equal ones the oldest. It looks no further than {@link costWindow}, so that no request is overtaken for long, and at
 * a line only when all of those before it are in.
 */
export function chooseByCost<E extends InferRequest>(
  lines: Lines<E>,
  maxBatchSize: number,
  limits: CostLimits,
): ChosenByCost<E> {
  const batch = new GrowingBatch<E>(maxBatchSize, limits)
  for (const line of lines) {
    const candidates = line.within(costWindow(maxBatchSize))
    const before = batch.entries.length
    if (limits.isPadded) addNearest(batch, candidates)
    else for (const entry of candidates) if (!batch.add(entry)) break
    if (batch.entries.length - before < line.count)
      return { entries: batch.entries, closedBy: batch.closedBy ?? 'bucket' }
  }
  return { entries: batch.entries, closedBy: null }
}

/** Number of arrivals among which a batch is chosen. Later arrivals overtake no request. */
export function costWindow(maxBatchSize: number): number {
  return Math.max(maxBatchSize, Math.min(8 * maxBatchSize, 512))
}

/** What a row of a request costs. */
function rowCost({ cost, rows }: InferRequest): number {
  return cost!.units / Math.max(1, rows)
}

/** A batch that grows as long as it keeps to its limits. */
class GrowingBatch<E extends InferRequest> {
  readonly entries: E[] = []
  /** What its dearest row costs. */
  dearest = 0
  /** Why a request did not go in, a limit of rows or of cost before padding. */
  closedBy: BatchReason | null = null
  rows = 0
  #units = 0
  readonly #maxBatchSize: number
  readonly #limits: CostLimits

  constructor(maxBatchSize: number, limits: CostLimits) {
    this.#maxBatchSize = maxBatchSize
    this.#limits = limits
  }

  /** Adds a request if the batch keeps to its limits, which the first one need not. */
  add(entry: E): boolean {
    const { maxBatchCost, isPadded, maxPaddingShare } = this.#limits
    const rows = this.rows + entry.rows
    const units = this.#units + entry.cost!.units
    const dearest = Math.max(this.dearest, rowCost(entry))
    const cost = isPadded ? dearest * rows : units
    if (this.entries.length > 0) {
      if (rows > this.#maxBatchSize) return this.#close('full')
      if (cost > maxBatchCost) return this.#close('cost')
      if (cost - units > maxPaddingShare * cost) return false
    }
    this.entries.push(entry)
    this.rows = rows
    this.#units = units
    this.dearest = dearest
    return true
  }

  #close(reason: BatchReason): boolean {
    this.closedBy ??= reason
    return false
  }
}

/** Adds those that are nearest to what is in, until none of either side goes in. */
function addNearest<E extends InferRequest>(batch: GrowingBatch<E>, candidates: readonly E[]): void {
  const isFirst = batch.entries.length === 0
  if (isFirst) batch.add(candidates[0]!)
  const others = isFirst ? candidates.slice(1) : candidates
  // Sorting is stable: of equal ones the oldest comes first on either side.
  const shorter = others
    .filter((entry) => rowCost(entry) <= batch.dearest)
    .sort((a, b) => rowCost(b) - rowCost(a))
  const longer = others
    .filter((entry) => rowCost(entry) > batch.dearest)
    .sort((a, b) => rowCost(a) - rowCost(b))
  let [down, up] = [0, 0]
  while (down < shorter.length || up < longer.length) {
    const [below, above] = [shorter[down], longer[up]]
    const isBelow =
      above === undefined ||
      (below !== undefined &&
        (batch.dearest - rowCost(below)) * below.rows <= (rowCost(above) - batch.dearest) * batch.rows)
    const isIn = batch.add((isBelow ? below : above)!)
    // Where one does not go in, none does that is further away on its side.
    if (isBelow) down = isIn ? down + 1 : shorter.length
    else up = isIn ? up + 1 : longer.length
  }
}

/** In the order of levels and of arrival, in which they go back to their lines. */
export function inServingOrder(a: InferRequest, b: InferRequest): number {
  return (
    a.level.level - b.level.level || Number(a.delayed) - Number(b.delayed) || a.cost!.order - b.cost!.order
  )
}
