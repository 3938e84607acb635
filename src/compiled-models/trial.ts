import { fork, type ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'
import { pipeline, Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { serialize } from 'node:v8'
import type { TrialResult, TrialStage, TrialTask, TrialWord } from './trial-messages.ts'

/** What came of a trial. */
export type TrialEnding =
  | { readonly kind: 'answered'; readonly result: TrialResult }
  /** There is no process to try models in. */
  | { readonly kind: 'not started'; readonly reason: string }
  | { readonly kind: 'died'; readonly stage: TrialStage; readonly signal: string; readonly reason: string }
  | { readonly kind: 'timed out'; readonly stage: TrialStage; readonly limitMs: number }

const lastWordsKept = 500
const pieceBytes = 2 ** 20

const children = new Set<ChildProcess>()

/** One listener, however many there are. */
function killAll(): void {
  for (const child of children) child.kill('SIGKILL')
}

/**
 * Has a model loaded, run once and compiled in a process of its own: what it does to a process, it does to that one. Nothing of that
 * process is left when this resolves, or rejects with the signal's reason.
 *
 * @param parts what the task says comes over standard input.
 */
export function runTrial(task: TrialTask, parts: readonly Uint8Array[], limitMs: number, signal: AbortSignal): Promise<TrialEnding> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    let child: ChildProcess
    try {
      serialize(task) // or it would fail when there is a process already
      child = fork(programFile(), { execArgv: [], env: environment(), stdio: ['pipe', 'ignore', 'pipe', 'ipc'], serialization: 'advanced' })
    } catch (error) {
      return resolve({ kind: 'not started', reason: (error as Error).message })
    }
    let stage: TrialStage | null = null
    const end = (settle: () => void): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      child.kill('SIGKILL')
      children.delete(child)
      if (children.size === 0) process.off('exit', killAll)
      settle()
    }
    const onAbort = () => end(() => reject(signal.reason as Error))
    const timer = setTimeout(() => {
      const reason = `a process to try it in did not start within ${limitMs} ms`
      end(() => resolve(stage === null ? { kind: 'not started', reason } : { kind: 'timed out', stage, limitMs }))
    }, limitMs)
    if (children.size === 0) process.prependOnceListener('exit', killAll) // before what they write is removed
    children.add(child)
    signal.addEventListener('abort', onAbort, { once: true })

    let lastWords = ''
    child.stderr!.setEncoding('utf8').on('data', (words: string) => (lastWords = (lastWords + words).slice(-lastWordsKept)))
    child.on('error', (error) => end(() => resolve({ kind: 'not started', reason: error.message })))
    child.on('message', (word: TrialWord) => {
      if (word.type === 'done') return end(() => resolve({ kind: 'answered', result: word.result }))
      if (word.type === 'stage') return void (stage = word.stage)
      stage = 'model'
      child.send(task, () => {}) // of one that dies at once the end is told below
      pipeline(Readable.from(piecesOf(parts)), child.stdin!, () => {})
    })
    child.on('close', (code, killedBy) => {
      const signal = killedBy ?? `exit code ${code}`
      const reason = lastWords.trim() === '' ? signal : `${signal} (${lastWords.trim()})`
      end(() => resolve(stage === null ? { kind: 'not started', reason: `a process to try it in ended with ${reason}` } : { kind: 'died', stage, signal, reason }))
    })
  })
}

/** Of this process's, without what would have the child be looked into, or do the same again. */
function environment(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS, ...env } = process.env
  const own = { ...env, ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none' }
  // There it is by these options that packages are found.
  return NODE_OPTIONS !== undefined && 'pnp' in process.versions ? { ...own, NODE_OPTIONS } : own
}

/** Copies: a stream may hold on to what it is given, and takes no shared memory. */
function* piecesOf(parts: readonly Uint8Array[]): Generator<Uint8Array> {
  for (const { buffer, byteOffset, byteLength } of parts) {
    for (let at = 0; at < byteLength; at += pieceBytes) {
      yield new Uint8Array(buffer, byteOffset + at, Math.min(pieceBytes, byteLength - at)).slice()
    }
  }
}

/**
 * The compiled program, also when this file runs from its TypeScript source.
 *
 * @throws Error where there is none, as in a bundle, or nothing but the application to run it: that would be started once more.
 */
function programFile(): string {
  const sea = process.getBuiltinModule?.('node:sea') as { isSea(): boolean } | undefined
  if (sea?.isSea() === true) throw new Error('this is a single executable, which is no Node.js for other programs')
  const places = ['../trial-process/try-model.js', '../../dist/trial-process/try-model.js']
  const file = places.map((place) => fileURLToPath(new URL(place, import.meta.url))).find((path) => existsSync(path))
  if (file === undefined) throw new Error("zerohop's files are not where they were installed")
  return file
}
