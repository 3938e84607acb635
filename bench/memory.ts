import { readFileSync } from 'node:fs'

/**
 * Proportional set size of a process in bytes: pages that several processes share are divided among them. 0 when it is
 * gone, or where the system does not tell.
 */
export function pssBytes(pid: number): number {
  try {
    const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
    return Number(/^Pss:\s+(\d+) kB$/m.exec(rollup)?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}

/** Memory of this process that no file backs, in bytes: what is shared with others, as libraries are, does not count. */
export function anonymousBytes(): number {
  const status = readFileSync('/proc/self/status', 'utf8')
  return Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024
}

/** Watches the summed memory of processes that come and go. */
export class MemoryWatch {
  readonly pids = new Set<number>()
  #peakBytes = 0
  readonly #timer: NodeJS.Timeout

  constructor(everyMs = 50) {
    this.#timer = setInterval(() => {
      const bytes = [...this.pids].reduce((sum, pid) => sum + pssBytes(pid), 0)
      this.#peakBytes = Math.max(this.#peakBytes, bytes)
    }, everyMs)
  }

  /** The highest sum seen. */
  get peakBytes(): number {
    return this.#peakBytes
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
