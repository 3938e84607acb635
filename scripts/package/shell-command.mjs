import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

/** A command of a shell, with all that it starts; it has so long, and `end()` leaves nothing of it running. */
export class ShellCommand {
  #text
  #child
  #lines = []
  #readers
  #closed
  #timer

  constructor(text, folder, environment, timeoutMs) {
    this.#text = text
    // A group of its own: npm starts a shell, and that starts what is meant.
    this.#child = spawn('sh', ['-c', text], { cwd: folder, env: environment, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    this.#readers = [this.#child.stdout, this.#child.stderr].map((input) => createInterface({ input }))
    for (const reader of this.#readers) reader.on('line', (line) => this.#lines.push(line))
    this.#closed = once(this.#child, 'close')
    // All of the group: what only its shell had started would hold the ends of the pipes, and nobody would be told.
    this.#timer = setTimeout(() => this.kill(), timeoutMs)
  }

  /** The first line that the pattern is in. */
  async said(pattern) {
    let hasEnded = false
    for (;;) {
      const match = this.#lines.map((line) => pattern.exec(line)).find((found) => found !== null)
      if (match !== undefined) return match
      if (hasEnded) throw new Error(`'${this.#text}' has ended before it said ${pattern}\n${this.#lines.join('\n')}`)
      hasEnded = await Promise.race([this.#closed.then(() => true), ...this.#readers.map((reader) => once(reader, 'line').then(() => false))])
    }
  }

  /** All that it said, when it has ended well. */
  async ended() {
    const [code, signal] = await this.#closed
    if (code === 0) return this.#lines
    throw new Error(`'${this.#text}' ended with ${signal ?? `exit code ${code}`}\n${this.#lines.join('\n')}`)
  }

  /** Ends all that it has started. */
  async end() {
    this.kill()
    await this.#closed
  }

  kill() {
    clearTimeout(this.#timer)
    try {
      process.kill(-this.#child.pid, 'SIGKILL')
    } catch {
      // It has ended, with all that it had started.
    }
  }
}
