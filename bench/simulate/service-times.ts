import { mulberry32, type Random } from '../../test/models/random.ts'
import { factorAt, type Step } from './steps.ts'

/** What a run of so many rows takes; ascending by rows. */
export type ServiceTable = readonly { readonly rows: number; readonly ms: number }[]

/** What a run takes: on the lines between the sizes of the table, as the first below it, in proportion above the last. */
export function tableMs(table: ServiceTable, rows: number): number {
  const above = table.findIndex((point) => point.rows >= rows)
  if (above === 0) return table[0]!.ms
  if (above === -1) {
    const last = table.at(-1)!
    return (last.ms * rows) / last.rows
  }
  const low = table[above - 1]!
  const high = table[above]!
  return low.ms + ((high.ms - low.ms) * (rows - low.rows)) / (high.rows - low.rows)
}

/** Most rows a second that one instance can serve with batches of up to `maxBatchSize`. */
export function capacityRowsPerSecond(table: ServiceTable, maxBatchSize: number): number {
  let best = 0
  for (let rows = 1; rows <= maxBatchSize; rows++) best = Math.max(best, rows / tableMs(table, rows))
  return best * 1000
}

/** Draws what single runs take. */
export class Estimator {
  readonly #byRows: Float64Array
  readonly #jitter: number
  readonly #steps: readonly Step[]
  readonly #random: Random

  /** @param jitter standard deviation of the logarithm: 0.1 for runs that differ by about 10 %. Their mean stays. */
  constructor(table: ServiceTable, maxRows: number, jitter: number, steps: readonly Step[], seed: number) {
    this.#byRows = Float64Array.from({ length: maxRows + 1 }, (_, rows) => tableMs(table, rows))
    this.#jitter = jitter
    this.#steps = steps
    this.#random = mulberry32(seed)
  }

  draw(rows: number, atMs: number): number {
    const ms = this.#byRows[rows]! * factorAt(this.#steps, atMs)
    const jitter = this.#jitter
    return jitter === 0 ? ms : ms * Math.exp(jitter * this.#gaussian() - (jitter * jitter) / 2)
  }

  #gaussian(): number {
    return Math.sqrt(-2 * Math.log(1 - this.#random())) * Math.cos(2 * Math.PI * this.#random())
  }
}
