import { invalidArgument } from '../errors.ts'
import type { TraceAccount } from './trace-account.ts'
import { TraceWriter } from './trace-writer.ts'

/** What this process writes traces to, all its engines together, by path. */
const inUse = new Map<string, TraceWriter>()
let isWatching = false

/** The files that the traces of one engine go to. */
export class TraceFiles {
  readonly #account: TraceAccount
  /** Also of files that were left: what is in them stays when they are used again. */
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
    throw invalidArgument(`${name}.file`, 'a file to which no other engine of this process writes', path, {
      hint: 'Take another one, or close that engine before',
    })
  }

  /** Which files are written from now on, by path. Those of before are closed, and gone on with when they come again. */
  use(paths: ReadonlySet<string>): void {
    for (const [path, writer] of this.#writers) if (!paths.has(path)) this.#leave(writer)
    for (const path of paths) {
      const known = this.#writers.get(path)
      if (known === undefined) this.#begin(path)
      else known.resume()
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
    this.use(new Set())
    await Promise.all(this.#closing)
    for (const [path, writer] of this.#writers) if (inUse.get(path) === writer) inUse.delete(path)
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

  #leave(writer: TraceWriter): void {
    const closed = writer.close().finally(() => this.#closing.delete(closed))
    this.#closing.add(closed)
  }
}
