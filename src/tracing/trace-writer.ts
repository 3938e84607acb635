import { JsonArrayFile } from './json-array-file.ts'
import type { TraceAccount } from './trace-account.ts'

/** So much is written at once as soon as it is there; less waits for more to come, but not for the first. */
const fullBytes = 65_536
const waitMs = 20
/** For how long a file that could not be written is left alone. */
const restMs = 1000

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
  /** After how many traces another file is begun; 0 for never. */
  logFrequency = 0
  readonly #account: TraceAccount
  readonly #whole: JsonArrayFile
  /** The last one takes what comes; those before have to be written still. */
  #chapters: Chapter[] = []
  #numbered = 0
  #running: Promise<void> | null = null
  #wake: (() => void) | null = null
  #wroteAtMs = -Infinity
  #failedAtMs = -Infinity
  #hasFailed = false
  #hurried = 0
  #closing = false

  constructor(path: string, account: TraceAccount) {
    this.path = path
    this.#account = account
    this.#whole = new JsonArrayFile(path)
  }

  /** @param bytes what was reserved for it. */
  add(text: string, bytes: number): void {
    if (performance.now() - this.#failedAtMs < restMs) {
      this.#account.failed++
      return this.#account.release(bytes)
    }
    const chapter = this.#chapter()
    chapter.texts.push(text)
    chapter.traces++
    chapter.bytes += bytes
    this.#running ??= this.#run()
    if (chapter.bytes >= fullBytes) this.#wake?.()
  }

  /** Resolves when what was added is in the file, or lost. */
  async flush(): Promise<void> {
    this.#hurried++
    while (this.#running !== null) {
      this.#wake?.()
      await this.#running
    }
    this.#hurried--
  }

  /** The same, and closes the file; it does so again after whatever is added later. */
  async close(): Promise<void> {
    this.#closing = true
    await this.flush()
    await this.#end()
  }

  /** Writes what there is at once, as the process ends. */
  flushSync(): void {
    for (const { file, texts } of this.#chapters.splice(0)) {
      try {
        if (texts.length > 0 || file.isWriting) file.appendSync(texts.join(',\n'))
      } catch {
        // Nobody is left to be told.
      }
    }
  }

  /** The chapter that the next trace goes to. */
  #chapter(): Chapter {
    const last = this.#chapters.at(-1)
    const isNumbered = this.logFrequency > 0
    const isWhole = last?.file === this.#whole
    if (last !== undefined && (isNumbered ? !isWhole && last.traces < this.logFrequency : isWhole)) return last
    const file = isNumbered ? new JsonArrayFile(`${this.path}.${this.#numbered++}`) : this.#whole
    const chapter = { file, traces: 0, texts: [], bytes: 0 }
    this.#chapters.push(chapter)
    return chapter
  }

  async #run(): Promise<void> {
    await new Promise(setImmediate) // all that a batch has answered goes together
    for (;;) {
      const chapter = this.#chapters[0]
      if (chapter !== undefined && chapter.texts.length > 0) {
        await this.#pause(chapter)
        await this.#write(chapter)
      } else if (this.#chapters.length > 1 || (this.#closing && chapter !== undefined)) await this.#end()
      else break
    }
    this.#running = null
  }

  /** Waits a little for more to write, unless there is enough or it is the first for long. */
  async #pause({ bytes }: Chapter): Promise<void> {
    const leftMs = this.#wroteAtMs + waitMs - performance.now()
    if (bytes >= fullBytes || this.#hurried > 0 || this.#chapters.length > 1 || leftMs <= 0) return
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
    try {
      await file.append(texts.join(',\n'))
      this.#account.written += texts.length
    } catch (error) {
      this.#fails(file, error as Error, texts.length)
    }
    this.#account.release(bytes)
    this.#wroteAtMs = performance.now()
  }

  /** Closes the first file, of which nothing is left to be written. */
  async #end(): Promise<void> {
    const chapter = this.#chapters.shift()
    await chapter?.file.close().catch((error: Error) => this.#fails(chapter.file, error, 0))
  }

  #fails({ path }: JsonArrayFile, { message }: Error, lost: number): void {
    this.#failedAtMs = performance.now()
    this.#account.failed += lost
    this.#account.fails(path, message, !this.#hasFailed)
    this.#hasFailed = true
  }
}
