import { spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { pssBytes } from '../memory.ts'
import type { Command } from './peer.ts'

/** Of the kernel's accounts, in every Linux that Node runs on. */
const ticksPerSecond = 100

const markName = 'ZEROHOP_PEER'

/** Of ONNX Runtime: a file of events that would grow while it is measured. */
const environment = { ORT_DISABLE_TELEMETRY: '1' }

/**
 * A program and all that it starts: descendants, and who has its mark in the environment, as some leave their parent and others
 * write a title over their environment. Nobody else's process is ended.
 */
export class ProcessTree {
  readonly root: ChildProcess
  readonly #mark = `${markName}=${randomUUID()}`
  /** By process id, when it was started: ids are used again. */
  readonly #known = new Map<number, string>()
  #tail = ''

  /** @param onLine is told each line of its standard output. */
  constructor({ file, args, env, cwd }: Command, onLine: (line: string) => void = () => {}) {
    this.root = spawn(file, args, { cwd, env: { ...process.env, ...environment, ...env, [markName]: this.#mark.slice(markName.length + 1) }, stdio: ['ignore', 'pipe', 'pipe'] })
    this.root.on('error', (error) => (this.#tail += error.message))
    this.root.stderr!.on('data', (text: Buffer) => this.#keep(text.toString()))
    createInterface(this.root.stdout!).on('line', (line) => {
      if (!line.startsWith('{')) this.#keep(`${line}\n`)
      onLine(line)
    })
  }

  get hasEnded(): boolean {
    return this.root.pid === undefined || this.root.exitCode !== null || this.root.signalCode !== null
  }

  /** The last of what it said, for errors. */
  get tail(): string {
    return this.#tail.trim().split('\n').slice(-6).join('\n')
  }

  /** Its processes that run. */
  pids(): number[] {
    const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map((name) => ({ pid: Number(name), ...statOf(Number(name)) }))
    for (let found = -1; found !== this.#known.size; ) {
      found = this.#known.size
      for (const { pid, parent, started } of all) {
        const isOurs = pid === this.root.pid || this.#known.has(parent) || read(`/proc/${pid}/environ`).includes(this.#mark)
        if (isOurs && started !== '') this.#known.set(pid, started)
      }
    }
    const started = new Map(all.map((each) => [each.pid, each.started]))
    for (const [pid, since] of this.#known) if (started.get(pid) !== since) this.#known.delete(pid)
    return [...this.#known.keys()]
  }

  /** Time that its processes have had on the cores, those that have ended included. */
  cpuSeconds(): number {
    return this.pids().reduce((sum, pid) => sum + statOf(pid).ticks, 0) / ticksPerSecond
  }

  pssBytes(): number {
    return this.pids().reduce((sum, pid) => sum + pssBytes(pid), 0)
  }

  /** Ends the program as it wishes to be, then whatever is left of it. */
  async end(): Promise<void> {
    if (!this.hasEnded) {
      this.root.kill('SIGTERM')
      await Promise.race([once(this.root, 'exit'), sleep(8000, undefined, { ref: false })])
    }
    for (let attempt = 0; attempt < 50; attempt++) {
      const left = this.pids()
      if (left.length === 0) return
      for (const pid of left) killed(pid)
      await sleep(100)
    }
    throw new Error(`processes ${this.pids().join(', ')} could not be ended`)
  }

  #keep(text: string): void {
    this.#tail = (this.#tail + text).slice(-4000)
  }
}

interface Stat {
  readonly parent: number
  /** Empty when it is gone, or a zombie. */
  readonly started: string
  /** User and system time, of the process and of its children that have been waited for. */
  readonly ticks: number
}

function statOf(pid: number): Stat {
  // The name before the fields may hold spaces.
  const fields = read(`/proc/${pid}/stat`).replace(/^[^]*\) /, '').split(' ')
  if (fields.length < 20 || fields[0] === 'Z') return { parent: 0, started: '', ticks: 0 }
  return { parent: Number(fields[1]), started: fields[19]!, ticks: fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) }
}

function killed(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return '' // it is gone, or somebody else's
  }
}
