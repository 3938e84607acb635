import type { FileHandle } from 'node:fs/promises'
import { open } from 'node:fs/promises'
import type { Arrival } from './arrival.ts'

/** As much is written at once. */
const writtenAtOnceBytes = 1 << 16
/** As much may wait for the disk; what comes beyond it is lost. */
const waitingBytes = 1 << 23

/** A recording being written. A disk that is slow or full costs lines, which are counted, and nobody's time. */
export class ArrivalFile {
  /** Requests that are in the file, or on their way to it. */
  recorded = 0
  /** Requests that were not written. */
  lost = 0
  /** Why writing has ended before its time; `null` while it has not. */
  failure: Error | null = null
  readonly #file: FileHandle
  #lines: string[] = []
  #bytes = 0
  #writing: Promise<void> | null = null

  /**
   * Begins a new file, in place of one that is there.
   *
   * @throws what Node.js throws for a file that cannot be written.
   */
  static async create(path: string): Promise<ArrivalFile> {
    return new ArrivalFile(await open(path, 'w'))
  }

  private constructor(file: FileHandle) {
    this.#file = file
  }

  /** Adds a request; those of a file are in the order of `atUs`. */
  add(arrival: Arrival): void {
    if (this.failure !== null || this.#bytes > waitingBytes) return void this.lost++
    const line = `${JSON.stringify(arrival)}\n`
    this.#lines.push(line)
    this.#bytes += line.length
    this.recorded++
    if (this.#bytes >= writtenAtOnceBytes) void this.#write()
  }

  /** Writes what is left, and closes the file. Never rejects. */
  async close(): Promise<void> {
    while (this.#lines.length > 0 && this.failure === null) await this.#write()
    await this.#writing
    await this.#file.close().catch((error: Error) => (this.failure ??= error))
  }

  #write(): Promise<void> {
    return (this.#writing ??= this.#writeLines().finally(() => (this.#writing = null)))
  }

  async #writeLines(): Promise<void> {
    while (this.#lines.length > 0) {
      const lines = this.#lines
      this.#lines = []
      this.#bytes = 0
      try {
        await this.#file.appendFile(lines.join(''))
      } catch (error) {
        this.failure = error as Error
        const unwritten = lines.length + this.#lines.length
        this.lost += unwritten
        this.recorded -= unwritten
        this.#lines = []
      }
      if (this.#bytes < writtenAtOnceBytes) return
    }
  }
}
