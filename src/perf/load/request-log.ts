/** Requests in one piece of memory. */
const blockLength = 1 << 16

/** One request, on the clock of the load. */
export interface LoggedRequest {
  /** When it was meant to be sent; as {@link sentMs} where nothing was meant. */
  readonly intendedMs: number
  readonly sentMs: number
  readonly endedMs: number
  readonly rows: number
  /** `null` for one that was answered. */
  readonly failure: string | null
}

interface Block {
  readonly times: Float64Array
  readonly rows: Uint32Array
  readonly failures: Uint8Array
}

/** Each request of a measurement, in the order in which they ended: 29 bytes each, for what has to list them. Others need none. */
export class RequestLog {
  readonly #blocks: Block[] = []
  /** What numbers stand for, 0 for an answer. */
  readonly #codes: string[] = ['']
  readonly #limit: number
  #length = 0

  /** @param limit of requests, after which no more are noted. */
  constructor(limit = Infinity) {
    this.#limit = limit
  }

  get length(): number {
    return this.#length
  }

  push(intendedMs: number, sentMs: number, endedMs: number, rows: number, failure: string | null): void {
    if (this.#length >= this.#limit) return
    const at = this.#length++ % blockLength
    if (at === 0) this.#blocks.push({ times: new Float64Array(3 * blockLength), rows: new Uint32Array(blockLength), failures: new Uint8Array(blockLength) })
    const block = this.#blocks.at(-1)!
    block.times[3 * at] = intendedMs
    block.times[3 * at + 1] = sentMs
    block.times[3 * at + 2] = endedMs
    block.rows[at] = rows
    if (failure !== null) block.failures[at] = this.#numberOf(failure)
  }

  *[Symbol.iterator](): Generator<LoggedRequest> {
    for (let index = 0; index < this.#length; index++) {
      const { times, rows, failures } = this.#blocks[Math.floor(index / blockLength)]!
      const at = index % blockLength
      const code = failures[at]!
      yield { intendedMs: times[3 * at]!, sentMs: times[3 * at + 1]!, endedMs: times[3 * at + 2]!, rows: rows[at]!, failure: code === 0 ? null : this.#codes[code]! }
    }
  }

  #numberOf(code: string): number {
    const known = this.#codes.indexOf(code)
    if (known > 0) return known
    return this.#codes.length < 256 ? this.#codes.push(code) - 1 : 255
  }
}
