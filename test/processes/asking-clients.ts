import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import type { SpawnOptions } from '../../src/adapters/processes/process-options.ts'
import { repetitions } from '../support/full.ts'

/** Endings of each kind that are tried. */
export const endings = Number(process.env.ENDINGS ?? repetitions(5, 1))

/** What a client has seen so far. */
export interface Counts {
  readonly process: number
  readonly server: number
  readonly right: number
  readonly disconnected: number
  readonly wrong: readonly string[]
}

export interface Asking {
  readonly path: string
  readonly sharedMemory: boolean
  readonly id: number
  readonly callers?: number
  readonly elements?: number
  readonly reportEvery?: number
  readonly spawn?: Pick<SpawnOptions, 'idleMs'> & { readonly module: string }
}

/** A process that asks without end. */
export class AskingClient {
  readonly child: ChildProcess
  counts: Counts | null = null
  readonly ended: Promise<unknown>
  #onCounts: ((counts: Counts) => void)[] = []

  constructor({ callers = 8, elements = 2000, reportEvery = 50, ...asking }: Asking) {
    const file = fileURLToPath(new URL('fixtures/client.mjs', import.meta.url))
    this.child = fork(file, [JSON.stringify({ callers, elements, reportEvery, ...asking })], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    this.child.on('message', (counts: Counts) => {
      this.counts = counts
      for (const call of this.#onCounts.splice(0)) call(counts)
    })
    this.ended = new Promise((resolve) => this.child.once('exit', (code, signal) => resolve(signal ?? code)))
    onTestFinished(() => void this.child.kill('SIGKILL'))
  }

  /** Resolves with what it says next; rejects when it ends instead. */
  next(): Promise<Counts> {
    const ended = this.ended.then((how) =>
      Promise.reject(new Error(`the client has ended with ${String(how)}`)),
    )
    return Promise.race([ended, new Promise<Counts>((resolve) => this.#onCounts.push(resolve))])
  }

  async until(holds: (counts: Counts) => boolean): Promise<Counts> {
    for (;;) {
      const counts = await this.next()
      if (holds(counts) || counts.wrong.length > 0) return counts
    }
  }

  /** Has it come to its end. */
  async stop(): Promise<Counts> {
    this.child.send('stop')
    await this.ended
    return this.counts!
  }
}
