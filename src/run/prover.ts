import { statSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { outsideContext } from '../base/async-context.ts'
import { nextTurn } from '../base/clock.ts'
import { messageOf } from '../base/message-of.ts'
import { ownFile } from '../base/own-package.ts'
import type { RowProof, RowQuestion } from '../onnx/row-proof/prove-rows.ts'
import { bytesId } from './executors/executor.ts'
import type { ProofTask } from './proof-task.ts'
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
/** A thread that does not serve after so long is given up, and none is started for a while. */
const startLimitMs = 10_000
const retryMs = 60_000

/**
 * Asks the graph of a model about its rows. Large graphs are read by a thread, one for the isolate; where none comes up, here.
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
    const found = byteLengthOf(model) <= mostBytesHere ? await answerHere(task, mostStepsHere) : null
    return found ?? (await askThread(task)) ?? (await answerHere(task))!
  } catch (error) {
    return [{ rows: 'unknown', node: null, reason: messageOf(error) }]
  }
}

/** What follows rows takes some milliseconds to load, and most large models need it in the thread alone. */
async function answerHere(task: ProofTask, steps?: number): Promise<Proofs | null> {
  const { answerTask } = await import('./proof-task.ts')
  return answerTask(task, steps)
}

function byteLengthOf(model: string | SharedArrayBuffer): number {
  return typeof model === 'string' ? statSync(model).size : model.byteLength
}

let thread: ProverThread | null = null
/** None is started before: the last one did not come up. */
let notBeforeMs = -Infinity

/** `null` when no thread comes up: its file may be missing, or Node's permission to start threads. */
async function askThread(task: ProofTask): Promise<Proofs | null> {
  if (thread === null && performance.now() < notBeforeMs) return null
  try {
    thread ??= outsideContext(() => new ProverThread())
  } catch {
    notBeforeMs = Infinity
    return null
  }
  return thread.ask(task)
}

/** The thread that reads large graphs. It does not hold the process. */
class ProverThread {
  readonly #worker = new Worker(ownFile('run/prover-thread.cjs'), { execArgv: [] })
  /** Those who wait for answers, which come in turn. */
  readonly #asked: { resolve(proofs: Proofs | null): void; reject(reason: Error): void }[] = []
  #serves = false
  #hasEnded = false
  #timer = setTimeout(() => nextTurn(() => this.#isLate()), startLimitMs).unref()

  constructor() {
    this.#worker.on('message', (answer: ProofAnswer) => this.#receive(answer))
    this.#worker.on('error', (error) => this.#end(messageOf(error)))
    this.#worker.once('exit', () => this.#end('it ended'))
    this.#worker.unref()
  }

  /** Resolves with `null` when the thread does not come up. */
  ask(task: ProofTask): Promise<Proofs | null> {
    if (this.#serves) clearTimeout(this.#timer)
    this.#worker.postMessage(task)
    return new Promise((resolve, reject) => this.#asked.push({ resolve, reject }))
  }

  #receive(answer: ProofAnswer): void {
    if (this.#hasEnded) return this.#terminate() // it was given up before it served
    if (answer === 'ready') {
      this.#serves = true
      clearTimeout(this.#timer)
    } else if ('proofs' in answer) this.#asked.shift()!.resolve(answer.proofs)
    else this.#asked.shift()!.reject(new Error(answer.failed))
    if (this.#asked.length === 0) this.#timer = setTimeout(() => this.#isIdle(), idleMs).unref()
  }

  /** Called one turn after the limit: if the event loop was held up, a message of the thread is received first. */
  #isLate(): void {
    // Not terminated before it serves: Node 20 may end the process over a thread that is still loading its modules.
    if (!this.#serves) this.#end('it did not start')
  }

  #isIdle(): void {
    this.#end('it was idle')
    this.#terminate()
  }

  #terminate(): void {
    void this.#worker.terminate()
    this.#worker.unref()
  }

  #end(reason: string): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    if (thread === this) thread = null
    clearTimeout(this.#timer)
    if (!this.#serves) notBeforeMs = performance.now() + retryMs
    for (const { resolve, reject } of this.#asked)
      if (this.#serves) reject(new Error(`The thread that reads graphs: ${reason}`))
      else resolve(null)
  }
}
