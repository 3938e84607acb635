import { once } from 'node:events'
import { createInterface } from 'node:readline'

/** What a program says on both of its outputs, line by line. */
export class SaidLines {
  #lines = []
  #closed
  #hasEnded = false
  /** Told of each line, and of the end. */
  #waiting = []

  /** @param child with pipes for its outputs. */
  constructor(child) {
    for (const input of [child.stdout, child.stderr]) {
      createInterface({ input }).on('line', (line) => {
        this.#lines.push(line)
        this.#tell()
      })
    }
    this.#closed = once(child, 'close').finally(() => {
      this.#hasEnded = true
      this.#tell()
    })
    this.#closed.catch(() => {}) // told to who waits for it
  }

  get text() {
    return this.#lines.join('\n')
  }

  /** The first line that the pattern is in. */
  async said(pattern) {
    for (;;) {
      const match = this.#lines.map((line) => pattern.exec(line)).find((found) => found !== null)
      if (match !== undefined) return match
      if (this.#hasEnded) throw new Error(`it has ended before it said ${pattern}:\n${this.text}`)
      await new Promise((resolve) => this.#waiting.push(resolve))
    }
  }

  /** How it ended, and all that it said. */
  async ended() {
    const [code, signal] = await this.#closed
    return { code, signal, lines: [...this.#lines] }
  }

  #tell() {
    for (const tell of this.#waiting.splice(0)) tell()
  }
}
