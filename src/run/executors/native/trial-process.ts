import { OwnProgram, type ProgramEnd } from '../../../base/own-program.ts'
import type { NativeProviderDevice } from '../../../native/native-binding.ts'

/** Why something cannot be used, in words. */
interface TrialFailure {
  readonly reason: string
}

/** How long an execution provider may take to be loaded and to run a model of one operator, in milliseconds. */
export const trialLimitMs = 60_000

/** What lets go of each trial that is under way. */
const running = new Set<() => void>()

/** Trials that are under way do not hold the process any more, and end with it. */
export function letGoOfTrials(): void {
  for (const letGo of running) letGo()
}

/**
 * Runs a program of this library in a separate process, which sends one answer: what a library that was made for another
 * machine does to a process, it does to that one.
 *
 * @param path of the program in `dist/`.
 * @param endsWell whether the end of the process is part of the trial; else the answer is all.
 */
export function tryInProcess<Answer extends object>(
  path: string,
  args: readonly string[],
  limitMs: number,
  endsWell: boolean,
): Promise<Answer | TrialFailure> {
  return new Promise((resolve) => {
    const end = (result: Answer | TrialFailure): void => {
      clearTimeout(timer)
      running.delete(letGo)
      resolve(result)
    }
    let program: OwnProgram<Answer | TrialFailure>
    let answer: Answer | TrialFailure | undefined
    const onWord = (result: Answer | TrialFailure): void => {
      answer = result
      if (!endsWell) program.kill() // nothing more is wanted of it
    }
    const onEnd = ({ code, way, lastWords }: ProgramEnd): void => {
      const died =
        code === 0 ? 'it printed nothing' : `with ${way}${lastWords === '' ? '' : ` (${lastWords})`}`
      if (answer !== undefined && (code === 0 || !endsWell || 'reason' in answer)) end(answer)
      else end({ reason: `the separate process that tried it ended: ${died}` })
    }
    try {
      program = new OwnProgram(
        path,
        { args },
        { onWord, onFailure: (reason) => end(notStarted(reason)), onEnd },
      )
    } catch (error) {
      return resolve(notStarted((error as Error).message)) // the permission model
    }
    const timer = setTimeout(() => {
      program.kill()
      end({ reason: `loading it took more than ${limitMs} ms in a separate process` })
    }, limitMs)
    const letGo = (): void => {
      program.unref()
      timer.unref()
    }
    running.add(letGo)
  })
}

const notStarted = (reason: string): TrialFailure => ({
  reason: `a process to try it in could not be started: ${reason}`,
})

/** What a child found of a plugin: its devices, or why it cannot be used. */
export type TrialResult = { readonly devices: readonly NativeProviderDevice[] } | TrialFailure

/** Loads a plugin in a separate process and runs a model of one operator with it. Ending that process is part of the trial. */
export function tryInChild(name: string, library: string, limitMs = trialLimitMs): Promise<TrialResult> {
  return tryInProcess('run/executors/native/plugin-trial-child.js', [name, library], limitMs, true)
}
