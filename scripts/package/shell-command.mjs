import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

/** A command of a shell, with all that it starts: whoever has it declared with `await using` leaves nothing running. */
export class ShellCommand {
  #text
  #child
  #lines = []
  #readers
  #closed

  constructor(text, folder, environment, timeoutMs) {
    this.#text = text
    // A group of its own: npm starts a shell, and that starts what is meant.
    this.#child = spawn('sh', ['-c', text], { cwd: folder, env: environment, stdio: ['ignore', 'pipe', 'pipe'], detached: true, timeout: timeoutMs })
    this.#readers = [this.#child.stdout, this.#child.stderr].map((input) => createInterface({ input }))
    for (const reader of this.#readers) reader.on('line', (line) => this.#lines.push(line))
    this.#closed = once(this.#child, 'close')
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

  async end() {
    if (this.#child.exitCode === null && this.#child.signalCode === null) process.kill(-this.#child.pid, 'SIGKILL')
    await this.#closed
  }
}
