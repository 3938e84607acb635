import type { TraceEvent } from './engine-events.ts'

/** What became of the traces of an engine. */
export interface TraceStatistics {
  /** Traces that were begun. */
  readonly begun: number
  /** Of these, in files by now. */
  readonly written: number
  /** Left out for want of room in memory (`maxBufferedBytes`). */
  readonly dropped: number
  /** Lost as their file could not be written. */
  readonly failed: number
  /** What waits to be written now, requests under way included, in bytes. */
  readonly bufferedBytes: number
  /** The last failure of a file; `null` for none. */
  readonly failure: { readonly file: string; readonly reason: string } | null
}

/** Keeps count of an engine's traces, and of the memory that they take. */
export class TraceAccount {
  begun = 0
  written = 0
  dropped = 0
  failed = 0
  failure: TraceStatistics['failure'] = null
  readonly #maxBytes: number
  readonly #tell: (event: TraceEvent) => void
  #bytes = 0

  constructor(maxBytes: number, tell: (event: TraceEvent) => void) {
    this.#maxBytes = maxBytes
    this.#tell = tell
  }

  /** Takes room for so many bytes; false when there is none. */
  reserve(bytes: number): boolean {
    if (this.#bytes + bytes > this.#maxBytes) return false
    this.#bytes += bytes
    return true
  }

  release(bytes: number): void {
    this.#bytes -= bytes
  }

  /** A file could not be written. @param isFirst whether it has not been told of yet. */
  fails(file: string, reason: string, isFirst: boolean): void {
    this.failure = { file, reason }
    if (!isFirst) return
    this.#tell({ type: 'failed', file, reason })
    process.emitWarning(
      `Traces cannot be written to ${file}: ${reason}. They are lost until they can; requests go on.`,
      { type: 'ZerohopWarning', code: 'ZEROHOP_TRACE_FAILED' },
    )
  }

  statistics(): TraceStatistics {
    const { begun, written, dropped, failed, failure } = this
    return { begun, written, dropped, failed, bufferedBytes: this.#bytes, failure }
  }
}
