import { fork, type ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Why something cannot be used, in words. */
export interface TrialFailure {
  readonly reason: string
}

/** How long an execution provider may take to be loaded and to run a model of one operator, in milliseconds. */
export const trialLimitMs = 60_000

/** What lets go of each trial that is under way. */
const running = new Set<() => void>()

/** Nobody waits for trials any more: they do not hold the process, and end with it. */
export function letGoOfTrials(): void {
  for (const letGo of running) letGo()
}

/**
 * Runs a program of this library in a process of its own, which sends one answer: what a library that was made for another
 * machine does to a process, it does to that one.
 *
 * @param program its path in `dist/`.
 * @param endsWell whether the end of the process is part of the trial; else the answer is all.
 */
export function tryInProcess<Answer extends object>(program: string, args: readonly string[], limitMs: number, endsWell: boolean): Promise<Answer | TrialFailure> {
  return new Promise((resolve) => {
    // Nothing of how this process was started: no inspector's port, no loader.
    const { NODE_OPTIONS: _, ...env } = process.env
    let child: ChildProcess
    try {
      child = fork(compiled(program), [...args], { execArgv: [], env, stdio: ['ignore', 'ignore', 'pipe', 'ipc'], serialization: 'advanced' })
    } catch (error) {
      return resolve(notStarted(error as Error)) // the permission model
    }
    if (child.stderr === null || child.stderr === undefined) {
      // Without file descriptors for its pipes nothing of it is there but the error that it is about to tell.
      child.on('error', (error) => resolve(notStarted(error)))
      return
    }
    const end = (result: Answer | TrialFailure): void => {
      clearTimeout(timer)
      process.off('exit', kill)
      running.delete(letGo)
      resolve(result)
    }
    const kill = () => child.kill('SIGKILL')
    const timer = setTimeout(() => {
      kill()
      end({ reason: `loading it took more than ${limitMs} ms in a process of its own` })
    }, limitMs)
    process.once('exit', kill)
    const letGo = (): void => {
      child.unref()
      child.channel?.unref()
      ;(child.stderr as Socket).unref()
      timer.unref()
    }
    running.add(letGo)
    let lastWords = ''
    child.stderr!.setEncoding('utf8').on('data', (words: string) => (lastWords = (lastWords + words).slice(-lastWordsKept)))
    let answer: Answer | TrialFailure | undefined
    child.on('message', (result: Answer | TrialFailure) => {
      answer = result
      if (!endsWell) kill() // nothing more is wanted of it
    })
    child.on('error', (error) => end(notStarted(error)))
    child.on('close', (code, signal) => {
      const died = code === 0 ? 'it said nothing' : `with ${signal ?? `exit code ${code}`}${lastWords.trim() === '' ? '' : ` (${lastWords.trim()})`}`
      if (answer !== undefined && (code === 0 || !endsWell || 'reason' in answer)) end(answer)
      else end({ reason: `a process of its own in which it was tried ended: ${died}` })
    })
  })
}

const lastWordsKept = 500

const notStarted = ({ message }: Error): TrialFailure => ({ reason: `a process to try it in could not be started: ${message}` })

/** The compiled program, also when this file runs from its TypeScript source. */
function compiled(program: string): string {
  const folder = dirname(fileURLToPath(import.meta.url))
  const beside = join(folder, '../..', program)
  return existsSync(beside) ? beside : join(folder, '../../../dist', program)
}
