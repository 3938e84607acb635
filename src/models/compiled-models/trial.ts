import { pipeline, Readable } from 'node:stream'
import { serialize } from 'node:v8'
import { OwnProgram, type ProgramEnd } from '../../base/own-program.ts'
import type { TrialResult, TrialStage, TrialTask, TrialWord } from './trial-messages.ts'

/** What came of a trial. */
export type TrialEnding =
  | { readonly kind: 'answered'; readonly result: TrialResult }
  /** There is no process to try models in. */
  | { readonly kind: 'not started'; readonly reason: string }
  | { readonly kind: 'died'; readonly stage: TrialStage; readonly signal: string; readonly reason: string }
  | { readonly kind: 'timed out'; readonly stage: TrialStage; readonly limitMs: number }

const pieceBytes = 2 ** 20

/** The engine in it does not try the model again. */
const env = { ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none' }

/**
 * Has a model loaded, run once and compiled in a process of its own: what it does to a process, it does to that one. Nothing of that
 * process is left when this resolves, or rejects with the signal's reason: what it was writing may be removed then.
 *
 * @param parts what the task says comes over standard input.
 */
export function runTrial(
  task: TrialTask,
  parts: readonly Uint8Array[],
  limitMs: number,
  signal: AbortSignal,
): Promise<TrialEnding> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    let program: OwnProgram<TrialWord | null>
    let stage: TrialStage | null = null
    const end = (settle: () => void): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      void program.killed().then(settle)
    }
    const ended = (ending: TrialEnding) => end(() => resolve(ending))
    const onAbort = () => end(() => reject(signal.reason as Error))
    const onWord = (word: TrialWord | null): void => {
      if (word?.type === 'done') return ended({ kind: 'answered', result: word.result })
      if (word?.type === 'stage') return void (stage = word.stage)
      if (word?.type !== 'started') return // of another program, which this Node.js runs instead
      stage = 'model'
      program.send(task)
      pipeline(Readable.from(piecesOf(parts)), program.input, () => {})
    }
    const onEnd = ({ way, lastWords }: ProgramEnd): void => {
      const reason = lastWords === '' ? way : `${way} (${lastWords})`
      ended(
        stage === null
          ? { kind: 'not started', reason: `a process to try it in ended with ${reason}` }
          : { kind: 'died', stage, signal: way, reason },
      )
    }
    try {
      serialize(task) // or it would fail when there is a process already
      program = new OwnProgram(
        'engine/trial-process/try-model.js',
        { env, hasInput: true },
        { onWord, onFailure: (reason) => ended({ kind: 'not started', reason }), onEnd },
      )
    } catch (error) {
      return resolve({ kind: 'not started', reason: (error as Error).message })
    }
    const timer = setTimeout(() => {
      const reason = `a process to try it in did not start within ${limitMs} ms`
      ended(stage === null ? { kind: 'not started', reason } : { kind: 'timed out', stage, limitMs })
    }, limitMs)
    signal.addEventListener('abort', onAbort, { once: true })
  })
}

/** Copies: a stream may hold on to what it is given, and takes no shared memory. */
function* piecesOf(parts: readonly Uint8Array[]): Generator<Uint8Array> {
  for (const { buffer, byteOffset, byteLength } of parts) {
    for (let at = 0; at < byteLength; at += pieceBytes) {
      yield new Uint8Array(buffer, byteOffset + at, Math.min(pieceBytes, byteLength - at)).slice()
    }
  }
}
