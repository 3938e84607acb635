import { invalidArgument } from '../errors.ts'
import type { TraceAccount } from './trace-account.ts'
import { TraceWriter } from './trace-writer.ts'

/** What this process writes traces to, all its engines together, by path. */
const inUse = new Map<string, TraceWriter>()
let isWatching = false

/** The files that the traces of one engine go to. */
export class TraceFiles {
  readonly #account: TraceAccount
  readonly #writers = new Map<string, TraceWriter>()
  readonly #closing = new Set<Promise<void>>()

  constructor(account: TraceAccount) {
    this.#account = account
  }

  /**
   * @param name of what says so, for errors.
   * @throws InferenceError `ERR_INVALID_ARG` where another engine of this process writes to it.
   */
  check(name: string, path: string | null): void {
    if (path === null || this.#writers.has(path) || !inUse.has(path)) return
    throw invalidArgument(`${name}.file`, 'a file to which no other engine of this process writes', path, { hint: 'Take another one, or close that engine before' })
  }

  /** Which files are written from now on, by path, and after how many traces each goes on with another. */
  use(files: ReadonlyMap<string, number>): void {
    for (const [path, writer] of this.#writers) if (!files.has(path)) this.#leave(path, writer)
    for (const [path, logFrequency] of files) {
      if (!this.#writers.has(path)) this.#begin(path)
      this.#writers.get(path)!.logFrequency = logFrequency
    }
  }

  of(path: string): TraceWriter {
    return this.#writers.get(path)!
  }

  /** Resolves when all that was traced is in its file, or lost. */
  async flush(): Promise<void> {
    await Promise.all([...this.#closing, ...[...this.#writers.values()].map((writer) => writer.flush())])
  }

  async close(): Promise<void> {
    this.use(new Map())
    await Promise.all(this.#closing)
  }

  #begin(path: string): void {
    const writer = new TraceWriter(path, this.#account)
    this.#writers.set(path, writer)
    inUse.set(path, writer)
    if (isWatching) return
    isWatching = true
    process.on('exit', () => {
      for (const each of inUse.values()) each.flushSync()
    })
  }

  #leave(path: string, writer: TraceWriter): void {
    this.#writers.delete(path)
    const closed = writer.close().finally(() => {
      if (inUse.get(path) === writer) inUse.delete(path)
      this.#closing.delete(closed)
    })
    this.#closing.add(closed)
  }
}
