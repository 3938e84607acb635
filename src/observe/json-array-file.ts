import {
  close,
  constants,
  fstat,
  fstatSync,
  ftruncate,
  ftruncateSync,
  open,
  openSync,
  stat,
  write,
  writeSync,
  type Stats,
} from 'node:fs'
import { promisify } from 'node:util'

const opened = promisify(open)
const closed = promisify(close)
const truncated = promisify(ftruncate)
const statOf = promisify(stat)
const fstatOf = promisify(fstat)
/** One call may write less than it was given. */
const writtenOnce = (fd: number, data: Buffer, from: number, at: number) =>
  new Promise<number>((resolve, reject) =>
    write(fd, data, from, data.length - from, at, (error, count) =>
      error === null ? resolve(count) : reject(error),
    ),
  )

/**
 * A FIFO without a reader fails instead of being waited for. Nothing is cut off by opening: that may still be on its way as the process
 * ends, and would take what is written then.
 */
const flags = constants.O_WRONLY | constants.O_CREAT | (constants.O_NONBLOCK ?? 0) | (constants.O_NOCTTY ?? 0)
/** As the process ends: for how long what is on its way is waited for. */
const endLimitMs = 1000
const pause = new Int32Array(new SharedArrayBuffer(4))

const head = '[\n'
const between = ',\n'
const tail = '\n]\n'
const end = Buffer.from(tail)

/**
 * A file with an array in JSON that grows: what is appended is written over the end of the array together with another end, so that
 * the file is whole after each write, and after a crash up to the last. One that was taken away or emptied is begun anew.
 */
export class JsonArrayFile {
  readonly path: string
  #fd: number | null = null
  /** Of a regular file, which one it is; `null` for a device. */
  #inode: number | null = null
  /** In bytes, with the end of the array; 0 while nothing is in it. */
  #length = 0
  /** Whether a write has failed, and what there is of it could not be taken back. */
  #isTorn = false
  /** What is being written. */
  #items: string | null = null
  /** How long the file is once what is on its way to the disk is there; `null` for nothing. */
  #comingLength: number | null = null

  constructor(path: string) {
    this.path = path
  }

  /** @throws Error of Node.js, or one that says that another process writes to it; the file then is as it was before, as far as that can be had. */
  async append(items: string): Promise<void> {
    this.#items = items
    try {
      const fd = await this.#ready()
      const data = this.#framed(items)
      const at = this.#at
      this.#comingLength = at + data.length
      try {
        for (let done = 0; done < data.length;) done += await writtenOnce(fd, data, done, at + done)
        this.#length = at + data.length
      } catch (error) {
        this.#isTorn = this.#inode !== null
        if (this.#isTorn) await this.#restore(fd).catch(() => {}) // the next one tries again
        throw error
      }
    } finally {
      this.#items = null
      this.#comingLength = null
    }
  }

  /** The same at once, as the process ends; what is being written is written again. */
  appendSync(items: string): void {
    const fd = (this.#fd ??= openSync(this.path, flags))
    const { size, isFile } = this.#settledSync(fd)
    if (isFile && this.#length === 0 && size > 0) ftruncateSync(fd, 0)
    if (isFile && this.#length > 0 && (size < this.#length || size > (this.#comingLength ?? this.#length)))
      return // another process has written to it
    const at = this.#at
    const data = this.#framed([this.#items ?? '', items].filter((each) => each !== '').join(between))
    for (let done = 0; done < data.length;) done += writeSync(fd, data, done, data.length - done, at + done)
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
    return this.#items !== null
  }

  get #at(): number {
    return Math.max(0, this.#length - tail.length)
  }

  #framed(items: string): Buffer {
    return Buffer.from(`${this.#length === 0 ? head : between}${items}${tail}`)
  }

  /** Opens it, unless it is that still. */
  async #ready(): Promise<number> {
    if (this.#fd !== null) {
      if (this.#inode === null) return this.#fd
      const stats = await statOf(this.path).catch(() => null)
      if (stats?.ino === this.#inode) return this.#checked(this.#fd, stats)
      await this.close()
      this.#isTorn = false
    }
    this.#fd = await opened(this.path, flags)
    return this.#checked(this.#fd, await fstatOf(this.#fd))
  }

  /** Sees to it that there is in it what was written so far, and nothing else. */
  async #checked(fd: number, stats: Stats): Promise<number> {
    const { ino, size } = stats
    if (!stats.isFile()) this.#inode = null
    else if (size === 0 || this.#length === 0) {
      this.#comingLength = 0
      if (size > 0) await truncated(fd, 0)
      this.#length = 0
      this.#inode = ino
      this.#isTorn = false
    } else if (this.#isTorn && ino === this.#inode) await this.#restore(fd)
    else if (size !== this.#length || ino !== this.#inode)
      throw new Error(`another program has written to it: expected its ${this.#length} bytes, found ${size}`)
    return fd
  }

  /** Takes back what was written in part: first its end is set, for which there is room. */
  async #restore(fd: number): Promise<void> {
    this.#comingLength = this.#length
    if (this.#length > 0) await writtenOnce(fd, end, 0, this.#at)
    await truncated(fd, this.#length)
    this.#isTorn = false
  }

  /** Waits until what is on its way is there: what is written meanwhile could be written over. */
  #settledSync(fd: number): { readonly size: number; readonly isFile: boolean } {
    const untilMs = performance.now() + endLimitMs
    for (;;) {
      const stats = fstatSync(fd)
      const isThere = this.#comingLength === null || stats.size === this.#comingLength
      if (isThere || !stats.isFile() || performance.now() > untilMs)
        return { size: stats.size, isFile: stats.isFile() }
      Atomics.wait(pause, 0, 0, 1)
    }
  }
}
