import type { TraceEvent } from './engine-events.ts'
import { JsonArrayFile } from './json-array-file.ts'
import { warn } from '../base/warnings.ts'

/** So much is written at once as soon as it is there; less waits for more to come, but not for the first. */
const fullBytes = 65_536
const waitMs = 20
/** For how long a file that could not be written is left alone. */
const restMs = 1000
/** A disk that takes longer over one write is not waited for. */
const patienceMs = 5000

/** Traces for one file, in their order. */
interface Chapter {
  readonly file: JsonArrayFile
  /** How many there are, written or not. */
  traces: number
  texts: string[]
  bytes: number
}

/**
 * Writes traces to a file, or to one after the other, behind the back of what is traced: in order, one write at a time, and what
 * comes meanwhile with the next. Nothing waits for it, no timer runs once all is written, and what fails is counted.
 */
export class TraceWriter {
  readonly path: string
  readonly #account: TraceAccount
  /** What the traces go to that all come to one file, and those that come to one of several. */
  readonly #whole: Chapter
  #numbered: Chapter | null = null
  #numberedCount = 0
  /** Chapters with something to be written, or that are over, and callbacks that wait for those before them. */
  readonly #queue: (Chapter | (() => void))[] = []
  readonly #closers: (() => void)[] = []
  #running: Promise<void> | null = null
  #wake: (() => void) | null = null
  #wroteAtMs = -Infinity
  #failedAtMs = -Infinity
  #hasFailed = false
  /** Whether the disk does not answer. */
  #hangs = false
  #closing = false

  constructor(path: string, account: TraceAccount) {
    this.path = path
    this.#account = account
    this.#whole = chapterOf(path)
  }

  /**
   * @param bytes what was reserved for it.
   * @param logFrequency after how many traces another file is begun; 0 for never.
   */
  add(text: string, bytes: number, logFrequency: number): void {
    if (this.#hangs || performance.now() - this.#failedAtMs < restMs) {
      this.#account.failed++
      return this.#account.release(bytes)
    }
    const chapter = logFrequency === 0 ? this.#whole : this.#numberedChapter(logFrequency)
    if (chapter.texts.length === 0) this.#enqueue(chapter)
    chapter.texts.push(text)
    chapter.traces++
    chapter.bytes += bytes
    if (chapter.bytes >= fullBytes) this.#wake?.()
  }

  /** Resolves when what was added is in the file, or lost; or when the disk has not answered for 5 s. */
  async flush(): Promise<void> {
    if (this.#running === null || this.#hangs) return
    await new Promise<void>((resolve) => this.#enqueue(resolve))
  }

  /** The same, and closes the files; it does so again after whatever is added later, unless it is {@link resume}d. */
  async close(): Promise<void> {
    this.#closing = true
    if (this.#hangs) return
    await new Promise<void>((resolve) => {
      this.#closers.push(resolve)
      this.#enqueue(() => {})
    })
  }

  /** Keeps its files open again, and goes on where they end. */
  resume(): void {
    this.#closing = false
  }

  /** Writes what there is at once, as the process ends. */
  flushSync(): void {
    if (this.#hangs) return
    const chapters = [...this.#queue.filter((each) => typeof each === 'object'), this.#whole]
    for (const { file, texts } of new Set(chapters)) {
      try {
        if (texts.length > 0 || file.isWriting) file.appendSync(texts.splice(0).join(',\n'))
      } catch {
        // The process ends: there is nothing left to report to.
      }
    }
  }

  #numberedChapter(logFrequency: number): Chapter {
    const last = this.#numbered
    if (last !== null && last.traces < logFrequency) return last
    if (last !== null && last.texts.length === 0) this.#enqueue(last) // to be closed
    return (this.#numbered = chapterOf(`${this.path}.${this.#numberedCount++}`))
  }

  #enqueue(next: Chapter | (() => void)): void {
    this.#queue.push(next)
    this.#running ??= this.#run()
    if (this.#queue.length > 1) this.#wake?.()
  }

  /** The first in the queue is what is being done. */
  async #run(): Promise<void> {
    await new Promise(setImmediate) // all that a batch has answered goes together
    do {
      for (let next; (next = this.#queue[0]) !== undefined; this.#queue.shift()) {
        if (typeof next === 'function') next()
        else await this.#do(next)
      }
      if (this.#closing)
        await Promise.all([this.#whole, this.#numbered].map((chapter) => chapter && this.#close(chapter)))
    } while (this.#queue.length > 0)
    this.#running = null
    for (const tell of this.#closers.splice(0)) tell()
  }

  async #do(chapter: Chapter): Promise<void> {
    if (chapter.texts.length > 0) {
      await this.#pause(chapter)
      await this.#write(chapter)
    }
    if (chapter.texts.length === 0 && chapter !== this.#whole && chapter !== this.#numbered)
      await this.#close(chapter)
  }

  /** Waits a little for more to write, unless there is enough, it is the first for long or a flush waits. */
  async #pause({ bytes }: Chapter): Promise<void> {
    const leftMs = this.#wroteAtMs + waitMs - performance.now()
    if (bytes >= fullBytes || this.#queue.length > 1 || leftMs <= 0) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, leftMs).unref()
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    this.#wake = null
  }

  async #write(chapter: Chapter): Promise<void> {
    const { file, texts, bytes } = chapter
    chapter.texts = []
    chapter.bytes = 0
    const patience = setTimeout(() => this.#hang(file), patienceMs).unref()
    try {
      await file.append(texts.join(',\n'))
      this.#account.written += texts.length
    } catch (error) {
      this.#fails(file, error as Error, texts.length)
    }
    clearTimeout(patience)
    this.#hangs = false
    this.#account.release(bytes)
    this.#wroteAtMs = performance.now()
  }

  /** The disk does not answer: lets every flush go. */
  #hang(file: JsonArrayFile): void {
    this.#hangs = true
    this.#fails(file, new Error(`the disk has not answered for ${patienceMs / 1000} s`), 0)
    for (const tell of [...this.#queue, ...this.#closers.splice(0)]) if (typeof tell === 'function') tell()
  }

  async #close({ file }: Chapter): Promise<void> {
    await file.close().catch((error: Error) => this.#fails(file, error, 0))
  }

  #fails({ path }: JsonArrayFile, { message }: Error, lost: number): void {
    this.#failedAtMs = performance.now()
    this.#account.failed += lost
    this.#account.fails(path, message, !this.#hasFailed)
    this.#hasFailed = true
  }
}

function chapterOf(path: string): Chapter {
  return { file: new JsonArrayFile(path), traces: 0, texts: [], bytes: 0 }
}

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

  /** A file could not be written. @param isFirst whether this was not reported yet. */
  fails(file: string, reason: string, isFirst: boolean): void {
    this.failure = { file, reason }
    if (!isFirst) return
    this.#tell({ type: 'failed', file, reason })
    warn(
      'ZEROHOP_TRACE_FAILED',
      `Traces cannot be written to ${file}: ${reason}. They are lost until then; requests continue.`,
    )
  }

  statistics(): TraceStatistics {
    const { begun, written, dropped, failed, failure } = this
    return { begun, written, dropped, failed, bufferedBytes: this.#bytes, failure }
  }
}
