import { spawn } from 'node:child_process'
import { SaidLines } from './said-lines.mjs'

/** A command of a shell, with all that it starts; it has so long, and `end()` leaves nothing of it running. */
export class ShellCommand {
  #text
  #child
  #lines
  #timer

  constructor(text, folder, environment, timeoutMs) {
    this.#text = text
    // A group of its own: npm starts a shell, and that starts what is meant.
    this.#child = spawn('sh', ['-c', text], {
      cwd: folder,
      env: environment,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    this.#lines = new SaidLines(this.#child)
    // All of the group: what only its shell had started would hold the ends of the pipes, and nobody would be told.
    this.#timer = setTimeout(() => this.kill(), timeoutMs)
  }

  /** The first line that the pattern is in. */
  async said(pattern) {
    return this.#lines.said(pattern).catch(({ message }) => {
      throw new Error(`'${this.#text}': ${message}`)
    })
  }

  /** All that it said, when it has ended well. */
  async ended() {
    const { code, signal, lines } = await this.#lines.ended()
    if (code === 0) return lines
    throw new Error(`'${this.#text}' ended with ${signal ?? `exit code ${code}`}\n${lines.join('\n')}`)
  }

  /** Ends all that it has started. */
  async end() {
    this.kill()
    await this.#lines.ended()
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
