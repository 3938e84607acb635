import { close, ftruncate, open, openSync, write, writeSync } from 'node:fs'
import { promisify } from 'node:util'

const opened = promisify(open)
const closed = promisify(close)
const truncated = promisify(ftruncate)
/** One call may write less than it was given. */
const writtenOnce = (fd: number, data: Buffer, from: number, at: number) =>
  new Promise<number>((resolve, reject) => write(fd, data, from, data.length - from, at, (error, count) => (error === null ? resolve(count) : reject(error))))

const head = '[\n'
const between = ',\n'
const tail = '\n]\n'

/**
 * A file with an array in JSON that grows: what is appended is written over the end of the array together with another end, so that
 * the file is whole after each write, and after a crash up to the last.
 */
export class JsonArrayFile {
  readonly path: string
  #fd: number | null = null
  /** In bytes, with the end of the array; 0 while nothing is in it. */
  #length = 0
  /** What is being written. */
  #writing: Buffer | null = null

  constructor(path: string) {
    this.path = path
  }

  /** @throws Error of Node.js; the file then is as it was before, as far as that can be had. */
  async append(items: string): Promise<void> {
    this.#fd ??= await this.#open()
    const [data, at] = this.#framed(items)
    this.#writing = data
    try {
      for (let done = 0; done < data.length; ) done += await writtenOnce(this.#fd, data, done, at + done)
      this.#length = at + data.length
    } catch (error) {
      await this.#restore(at)
      throw error
    } finally {
      this.#writing = null
    }
  }

  /** The same at once, as the process ends; what is being written is written again. */
  appendSync(items: string): void {
    this.#fd ??= openSync(this.path, this.#length === 0 ? 'w' : 'r+')
    const at = this.#at
    const ahead = this.#writing === null ? '' : this.#writing.toString().slice(this.#length === 0 ? head.length : between.length, -tail.length)
    const [data] = this.#framed([ahead, items].filter((each) => each !== '').join(between))
    for (let done = 0; done < data.length; ) done += writeSync(this.#fd, data, done, data.length - done, at + done)
    this.#length = at + data.length
  }

  /** It may be gone on with later. */
  async close(): Promise<void> {
    const fd = this.#fd
    this.#fd = null
    if (fd !== null) await closed(fd)
  }

  /** Whether something of it is on its way to the disk. */
  get isWriting(): boolean {
    return this.#writing !== null
  }

  get #at(): number {
    return Math.max(0, this.#length - tail.length)
  }

  async #open(): Promise<number> {
    if (this.#length === 0) return opened(this.path, 'w')
    try {
      return await opened(this.path, 'r+')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      this.#length = 0 // somebody has taken it away
      return opened(this.path, 'w')
    }
  }

  #framed(items: string): [data: Buffer, at: number] {
    return [Buffer.from(`${this.#length === 0 ? head : between}${items}${tail}`), this.#at]
  }

  /** Takes back what was written in part. */
  async #restore(at: number): Promise<void> {
    const end = Buffer.from(tail)
    try {
      await truncated(this.#fd!, at)
      if (this.#length > 0) await writtenOnce(this.#fd!, end, 0, at)
    } catch {
      // The next one that succeeds writes over it.
    }
  }
}
