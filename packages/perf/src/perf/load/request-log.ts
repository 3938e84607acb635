import type { Sample } from '../input/sample.ts'

/** Requests in one piece of memory. */
const blockLength = 1 << 16

/** One request, on the clock of the load. */
export interface LoggedRequest {
  /** When it was meant to be sent; as {@link sentMs} where nothing was meant. */
  readonly intendedMs: number
  readonly sentMs: number
  readonly endedMs: number
  readonly rows: number
  /** `null` for none, or one that is no number. */
  readonly sequenceId: number | null
  /** The code of its error; `null` for one that was answered. */
  readonly failure: string | null
}

interface Block {
  /** Four numbers for each request. */
  readonly numbers: Float64Array
  readonly rows: Uint32Array
  readonly failures: Uint8Array
}

/** Each request of a measurement, in the order in which they ended: 37 bytes each, for what has to list them. Others need none. */
export class RequestLog {
  readonly #blocks: Block[] = []
  /** What numbers stand for, 0 for an answer. */
  readonly #codes: string[] = ['']
  readonly #limit: number
  #length = 0
  #dropped = 0

  /** @param limit of requests, after which no more are noted. */
  constructor(limit = Infinity) {
    this.#limit = limit
  }

  get length(): number {
    return this.#length
  }

  /** Requests that came after the limit was reached. */
  get dropped(): number {
    return this.#dropped
  }

  push(
    intendedMs: number,
    sentMs: number,
    endedMs: number,
    { rows, options }: Sample,
    failure: string | null,
  ): void {
    if (this.#length >= this.#limit) {
      this.#dropped++
      return
    }
    const at = this.#length++ % blockLength
    if (at === 0)
      this.#blocks.push({
        numbers: new Float64Array(4 * blockLength),
        rows: new Uint32Array(blockLength),
        failures: new Uint8Array(blockLength),
      })
    const block = this.#blocks.at(-1)!
    block.numbers[4 * at] = intendedMs
    block.numbers[4 * at + 1] = sentMs
    block.numbers[4 * at + 2] = endedMs
    block.numbers[4 * at + 3] = typeof options?.sequenceId === 'number' ? options.sequenceId : NaN
    block.rows[at] = rows
    if (failure !== null) block.failures[at] = this.#numberOf(failure)
  }

  *[Symbol.iterator](): Generator<LoggedRequest> {
    for (let index = 0; index < this.#length; index++) {
      const { numbers, rows, failures } = this.#blocks[Math.floor(index / blockLength)]!
      const at = index % blockLength
      const [intendedMs, sentMs, endedMs, sequenceId] = numbers.subarray(4 * at, 4 * at + 4) as unknown as [
        number,
        number,
        number,
        number,
      ]
      const code = failures[at]!
      yield {
        intendedMs,
        sentMs,
        endedMs,
        rows: rows[at]!,
        sequenceId: Number.isNaN(sequenceId) ? null : sequenceId,
        failure: code === 0 ? null : this.#codes[code]!,
      }
    }
  }

  #numberOf(code: string): number {
    const known = this.#codes.indexOf(code)
    if (known > 0) return known
    return this.#codes.length < 256 ? this.#codes.push(code) - 1 : 255
  }
}
