import { fork } from 'node:child_process'
import { InferenceError } from '../../errors.ts'
import type { CheckedSpawnOptions } from './process-options.ts'
import { ownFile } from '../../base/own-package.ts'
import { takeLock, type HeldLock, checkFolder } from './serving-place.ts'
import { errorFrom } from './tagged-json.ts'

/** The only message of a started process: it serves, or why it cannot. */
export interface StartReport {
  readonly error?: unknown
}

/** The parameters of a serving process. */
export interface ServingTask {
  readonly path: string
  readonly module: string
  readonly idleMs: number
}

/**
 * Starts a serving process, and waits until it serves. Does nothing if another process is starting one
 * already.
 *
 * @throws InferenceError `ERR_DISCONNECTED` if it cannot serve, with the reason as `cause`.
 */
export async function startServer(
  path: string,
  spawn: CheckedSpawnOptions,
  timeoutMs: number,
): Promise<void> {
  checkFolder(path, true)
  let lock: HeldLock | null = null
  try {
    lock = takeLock(`${path}.start`)
    if (lock !== null) await start(path, spawn, timeoutMs)
  } catch (error) {
    const message = `The process that is to serve at ${path} could not be started: ${error instanceof Error ? error.message : String(error)}`
    throw new InferenceError('ERR_DISCONNECTED', message, { name: 'options.spawn', cause: error })
  } finally {
    lock?.release()
  }
}

function start(
  path: string,
  { module, idleMs, execArgv, env }: CheckedSpawnOptions,
  timeoutMs: number,
): Promise<void> {
  const task: ServingTask = { path, module, idleMs }
  const child = fork(ownFile('adapters/processes/serving-process.js'), [JSON.stringify(task)], {
    detached: true, // signals to this process, such as Ctrl+C, do not reach it
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    ...optionsOfNode(execArgv),
    ...(env === undefined ? {} : { env }),
  })
  return new Promise((resolve, reject) => {
    const end = (failure: unknown) => {
      clearTimeout(timer)
      child.removeAllListeners()
      if (child.connected) child.disconnect()
      child.unref()
      if (failure === undefined) resolve()
      else reject(failure as Error)
    }
    const timer = setTimeout(() => {
      child.kill('SIGKILL')
      end(new Error(`it did not serve within ${timeoutMs} ms`))
    }, timeoutMs)
    child.once('message', ({ error }: StartReport) => end(error === undefined ? undefined : errorFrom(error)))
    child.once('error', end)
    // Not 'exit', which may come before the process's last message.
    child.once('close', (code, signal) => end(new Error(`it ended with ${signal ?? `code ${code}`}`)))
  })
}

/** Without the options that hold a program given on the command line. */
function optionsOfNode(execArgv: readonly string[] | undefined): { execArgv?: string[] } {
  if (execArgv !== undefined) return { execArgv: [...execArgv] }
  return process.execArgv.some((option) => option.startsWith('--input-type')) ? { execArgv: [] } : {}
}
