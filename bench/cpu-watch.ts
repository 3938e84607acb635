import { readFileSync } from 'node:fs'

const ticksPerSecond = 100 // of /proc, on every Linux

/** Watches how many cores processes that come and go keep busy. */
export class CpuWatch {
  readonly pids = new Set<number>()
  #peakCores = 0
  #lookedAtMs = performance.now()
  #before = new Map<number, number>()
  readonly #timer: NodeJS.Timeout

  constructor(everyMs = 500) {
    this.#timer = setInterval(() => this.#look(), everyMs)
  }

  /** The most that was seen between two looks. */
  get peakCores(): number {
    return this.#peakCores
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const nowMs = performance.now()
    const now = new Map([...this.pids].map((pid) => [pid, cpuSeconds(pid)]))
    let seconds = 0
    for (const [pid, used] of now) seconds += used - (this.#before.get(pid) ?? 0)
    this.#peakCores = Math.max(this.#peakCores, (seconds * 1000) / (nowMs - this.#lookedAtMs))
    this.#before = now
    this.#lookedAtMs = nowMs
  }
}

/** What a process has used of the cores so far; 0 when it is gone. */
function cpuSeconds(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const [user, system] = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 13)
    return (Number(user) + Number(system)) / ticksPerSecond
  } catch {
    return 0
  }
}
