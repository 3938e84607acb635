import { statSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { outsideContext } from '../base/async-context.ts'
import { nextTurn } from '../base/clock.ts'
import { messageOf } from '../base/message-of.ts'
import { ownFile } from '../base/own-package.ts'
import type { RowProof, RowQuestion } from '../onnx/row-proof/prove-rows.ts'
import { bytesId } from './executors/executor.ts'
import { prove as proveHere, type ProofTask } from './prove.ts'
import type { ProofAnswer } from './prover-thread.ts'

type Proofs = readonly RowProof[]

/**
 * The largest file that the calling thread reads, whose event loop waits for the disk, and the steps that it takes for an answer: one
 * or two milliseconds. A thread takes 50 to start.
 */
const mostBytesHere = 2 ** 20
const mostStepsHere = 3000
/** After so long without a question the thread ends. */
const idleMs = 5000
/** A thread that does not serve after so long is given up. */
const startLimitMs = 10_000

/**
 * Asks the graph of a model about its rows. Large graphs are read by a thread, one for the process; where none comes up, here.
 * A file that cannot be read is answered with `unknown`.
 *
 * @param model its path, or its bytes.
 * @param questions in turn, until one is proved. None: the graph is read ahead.
 * @returns what was found for each of those that were asked.
 */
export async function prove(
  model: string | SharedArrayBuffer,
  questions: readonly RowQuestion[],
): Promise<Proofs> {
  const task: ProofTask = { model, bytesId: typeof model === 'string' ? 0 : bytesId(model), questions }
  try {
    await new Promise<void>((resolve) => nextTurn(resolve)) // between two answers others have their turn
    const found = byteLengthOf(model) <= mostBytesHere ? proveHere(task, mostStepsHere) : null
    return found ?? (await askThread(task)) ?? proveHere(task)!
  } catch (error) {
    return [{ rows: 'unknown', node: null, reason: messageOf(error) }]
  }
}

function byteLengthOf(model: string | SharedArrayBuffer): number {
  return typeof model === 'string' ? statSync(model).size : model.byteLength
}

let thread: ProverThread | null = null
/** False once a thread did not come up: its file may be missing, or Node's permission to start threads. */
let canStart = true

async function askThread(task: ProofTask): Promise<Proofs | null> {
  try {
    if (canStart) thread ??= outsideContext(() => new ProverThread())
  } catch {
    canStart = false
  }
  return thread === null ? null : thread.ask(task)
}

/** The thread that reads large graphs. It holds the process while it is asked something. */
class ProverThread {
  readonly #worker = new Worker(ownFile('run/prover-thread.cjs'), { execArgv: [] })
  /** Those who wait for answers, which come in turn. */
  readonly #asked: { resolve(proofs: Proofs | null): void; reject(reason: Error): void }[] = []
  #serves = false
  #timer = setTimeout(() => this.#end('it did not start'), startLimitMs).unref()

  constructor() {
    this.#worker.on('message', (answer: ProofAnswer) => this.#receive(answer))
    this.#worker.on('error', (error) => this.#end(messageOf(error)))
    this.#worker.once('exit', () => this.#end('it ended'))
  }

  /** Resolves with `null` when the thread does not come up. */
  ask(task: ProofTask): Promise<Proofs | null> {
    this.#worker.ref()
    if (this.#serves) clearTimeout(this.#timer)
    this.#worker.postMessage(task)
    return new Promise((resolve, reject) => this.#asked.push({ resolve, reject }))
  }

  #receive(answer: ProofAnswer): void {
    if (answer === 'ready') {
      this.#serves = true
      clearTimeout(this.#timer)
    } else if ('proofs' in answer) this.#asked.shift()!.resolve(answer.proofs)
    else this.#asked.shift()!.reject(new Error(answer.failed))
    if (this.#asked.length > 0) return
    this.#worker.unref()
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#end('it was idle'), idleMs).unref()
  }

  #end(reason: string): void {
    if (thread === this) thread = null
    clearTimeout(this.#timer)
    canStart &&= this.#serves
    void this.#worker.terminate()
    for (const { resolve, reject } of this.#asked.splice(0))
      if (this.#serves) reject(new Error(`The thread that reads graphs: ${reason}`))
      else resolve(null)
  }
}
