import type { ProcessTree } from './process-tree.ts'

/** What the line of a load generator says at the end of a level, ours for HTTP and the programs in process alike. */
export interface LoopEnd {
  /** Right answers within the window. */
  readonly answered: number
  readonly seconds: number
  readonly p50Us: number
  readonly p90Us: number
  readonly p99Us: number
  readonly maxUs: number
  /** Answered by an error. */
  readonly failed: number
  /** Of an open loop: not answered when it was given up. */
  readonly unfinished: number
  /** In process: some answers, as base64 of float32. */
  readonly samples?: readonly { readonly index: number; readonly values: string }[]
}

/** What a level gave, of a peer in one round. */
export interface LevelFigures {
  readonly callers: number | null
  readonly ratePerSecond: number | null
  readonly requestsPerSecond: number
  /** How many the percentiles are of: of an open loop all that were meant to be asked within the window. */
  readonly latencies: number
  readonly p50Ms: number
  readonly p90Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  readonly failed: number
  readonly unfinished: number
  /** Of the peer's processes, without an HTTP client's. */
  readonly cpuUsPerRequest: number
  readonly pssBytes: number
  /** Answers that were compared with plain ONNX Runtime's. */
  readonly checked: number
  /** Largest difference among them, as a part of the largest number. */
  readonly difference: number
}

/** Of fewer latencies the 99th percentile is the largest, and tells nothing. */
const fewestForP99 = 100

export const hasP99 = ({ latencies }: LevelFigures): boolean => latencies >= fewestForP99

/** Reads the lines of a load generator, and the peer's accounts as its window begins and ends. */
export class LevelWatch {
  #began = 0
  #cpuSeconds = 0
  #pssBytes = 0
  readonly ended: Promise<LoopEnd>
  #resolve!: (end: LoopEnd) => void
  readonly #tree: ProcessTree

  constructor(tree: ProcessTree) {
    this.#tree = tree
    this.ended = new Promise((resolve) => (this.#resolve = resolve))
  }

  /** @returns whether the level is over. */
  onLine(line: string): boolean {
    const told = toldBy(line)
    if (told === null) return false
    const { event, ...end } = told
    if (event === 'begin') this.#began = this.#tree.cpuSeconds()
    if (event === 'measured') {
      this.#cpuSeconds = this.#tree.cpuSeconds() - this.#began
      this.#pssBytes = this.#tree.pssBytes()
    }
    if (event === 'end') this.#resolve(end)
    return event === 'end'
  }

  accounts(end: LoopEnd): Pick<LevelFigures, 'cpuUsPerRequest' | 'pssBytes'> {
    return { cpuUsPerRequest: (this.#cpuSeconds * 1e6) / Math.max(1, end.answered), pssBytes: this.#pssBytes }
  }
}

/** What a line tells; nothing where it was cut off as its program ended, which is no reason to end all other measurements. */
function toldBy(line: string): ({ event: string } & LoopEnd) | null {
  if (!line.startsWith('{"event":')) return null
  try {
    return JSON.parse(line) as { event: string } & LoopEnd
  } catch {
    return null
  }
}
