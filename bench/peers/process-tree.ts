import { spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { pssBytes } from '../memory.ts'
import type { Command } from './peer.ts'
import { allPids, environmentOf, kill, statOf, ticksPerSecond } from './processes.ts'

const markName = 'ZEROHOP_PEER'

const ownerOf = new RegExp(`(?:^|\\0)${markName}=(\\d+)\\.(\\d+)\\.`)

/** Whose a mark is: the process that measures, as long as it runs. */
const owner = `${process.pid}.${statOf(process.pid).started}`

/** Of ONNX Runtime: a file of events that would grow while it is measured. */
const environment = { ORT_DISABLE_TELEMETRY: '1' }

/**
 * A program and all that it starts: descendants, and who has its mark in the environment, as some leave their parent and others
 * write a title over their environment. Nobody else's process is ended.
 */
export class ProcessTree {
  static readonly #running = new Set<ProcessTree>()
  static #isOver = false
  readonly root: ChildProcess
  readonly #mark = `${markName}=${owner}.${randomUUID()}`
  /** By process id, when it was started: ids are used again. */
  readonly #known = new Map<number, string>()
  #tail = ''

  /** @param onLine is told each line of its standard output. */
  constructor({ file, args, env, cwd }: Command, onLine: (line: string) => void = () => {}) {
    if (ProcessTree.#isOver) throw new Error('nothing is started any more')
    this.root = spawn(file, args, {
      cwd,
      env: { ...process.env, ...environment, ...env, [markName]: this.#mark.slice(markName.length + 1) },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    ProcessTree.#running.add(this)
    this.root.on('error', (error) => (this.#tail += error.message))
    this.root.stderr!.on('data', (text: Buffer) => this.#keep(text.toString()))
    createInterface(this.root.stdout!).on('line', (line) => {
      if (!line.startsWith('{')) this.#keep(`${line}\n`)
      onLine(line)
    })
  }

  /** Ends all that run; no other is started. */
  static async endAll(): Promise<void> {
    ProcessTree.#isOver = true
    await Promise.all(Array.from(ProcessTree.#running, (tree) => tree.end()))
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
    for (const [pid, since] of this.#known) if (statOf(pid).started !== since) this.#known.delete(pid)
    const all = allPids()
      .map((pid) => ({ pid, ...statOf(pid) }))
      .filter(({ started }) => started !== '')
    const rootPid = this.hasEnded ? null : this.root.pid // else it may be somebody else's by now
    for (let found = -1; found !== this.#known.size;) {
      found = this.#known.size
      for (const { pid, parent, started } of all) {
        if (pid === rootPid || this.#known.has(parent) || environmentOf(pid).includes(this.#mark))
          this.#known.set(pid, started)
      }
    }
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
      this.pids() // who has no mark is not found any more once its parent is gone
      this.root.kill('SIGTERM')
      await Promise.race([once(this.root, 'exit'), sleep(8000, undefined, { ref: false })])
    }
    for (let attempt = 0; attempt < 50; attempt++) {
      const left = this.pids()
      if (left.length === 0) {
        ProcessTree.#running.delete(this)
        return
      }
      for (const pid of left) kill(pid)
      await sleep(100)
    }
    throw new Error(`processes ${this.pids().join(', ')} could not be ended`)
  }

  #keep(text: string): void {
    this.#tail = (this.#tail + text).slice(-4000)
  }
}

/**
 * Ends what a measuring process left behind that was killed itself: it would take the time of whoever is measured.
 *
 * @returns how many processes that were, and the ids of other measuring processes that run.
 */
export function endLeftovers(): { ended: number; others: number[] } {
  const others = new Set<number>()
  let ended = 0
  for (const pid of allPids()) {
    const [, ownerPid, started] = ownerOf.exec(environmentOf(pid)) ?? []
    if (ownerPid === undefined) continue
    if (statOf(Number(ownerPid)).started === started) others.add(Number(ownerPid))
    else {
      kill(pid)
      ended++
    }
  }
  return { ended, others: [...others].filter((pid) => pid !== process.pid) }
}
