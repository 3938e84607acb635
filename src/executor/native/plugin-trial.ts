import { fork } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import type { NativeProviderDevice } from '../../memory/native-providers.ts'

/** What a child found of a plugin: its devices, or why it cannot be used. */
export type TrialResult = { readonly devices: readonly NativeProviderDevice[] } | { readonly reason: string }

/** How long a plugin may take to be loaded and to run a model of one operator, in milliseconds. */
const trialLimitMs = 60_000

/** What lets go of each trial that is under way. */
const running = new Set<() => void>()

/** Nobody waits for trials any more: they do not hold the process, and end with it. */
export function letGoOfTrials(): void {
  for (const letGo of running) letGo()
}

/**
 * Loads a plugin in a process of its own and runs a model of one operator with it: what a library that was made for another
 * machine does to a process, it does to that one.
 */
export function tryInChild(name: string, library: string, limitMs = trialLimitMs): Promise<TrialResult> {
  return new Promise((resolve) => {
    // Nothing of how this process was started: no inspector's port, no loader.
    const { NODE_OPTIONS: _, ...env } = process.env
    const child = fork(childFile(), [name, library], { execArgv: [], env, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
    const end = (result: TrialResult): void => {
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
    let answer: TrialResult | undefined
    child.on('message', (result: TrialResult) => (answer = result))
    child.on('error', (error) => end({ reason: `a process to try it in could not be started: ${error.message}` }))
    // Also after an answer: ending a process with the plugin in it is part of the trial.
    child.on('close', (code, signal) => {
      const died = code === 0 ? 'it said nothing' : `with ${signal ?? `exit code ${code}`}${lastWords.trim() === '' ? '' : ` (${lastWords.trim()})`}`
      if (answer !== undefined && (code === 0 || 'reason' in answer)) end(answer)
      else end({ reason: `a process of its own in which it was tried ended: ${died}` })
    })
  })
}

const lastWordsKept = 500

/** The compiled program beside this file, or in `dist/` when this file runs from its TypeScript source. */
function childFile(): string {
  const beside = fileURLToPath(new URL('./plugin-trial-child.js', import.meta.url))
  return existsSync(beside) ? beside : fileURLToPath(new URL('../../../dist/executor/native/plugin-trial-child.js', import.meta.url))
}
