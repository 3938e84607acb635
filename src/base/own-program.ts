import type { ChildProcess } from 'node:child_process'
import { constants, getPriority, setPriority } from 'node:os'
import { basename, isAbsolute } from 'node:path'
import type { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { ownFile } from './own-package.ts'
import { setting, type Settings } from './settings.ts'

const lastWordsKept = 500
/**
 * Most time to wait for the end of a killed process: the system may keep it as long as a disk does not
 * respond.
 */
const mostEndingMs = 1000

/** How a program ended. */
export interface ProgramEnd {
  readonly code: number | null
  /** The signal or exit code, in words. */
  readonly way: string
  /** The end of its standard error. */
  readonly lastWords: string
}

/** Callbacks for a program's events. Each is called asynchronously. */
export interface ProgramEvents<Word> {
  onWord(word: Word): void
  /** The program could not be started. */
  onFailure(reason: string): void
  onEnd(end: ProgramEnd): void
}

export interface ProgramOptions {
  readonly args?: readonly string[]
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>
  /** Whether it reads from its standard input. */
  readonly hasInput?: boolean
  /** Whether it computes at a lower priority than others, from its start. */
  readonly givesWay?: boolean
}

const begunPrograms = 'ZEROHOP_PROGRAMS' satisfies keyof Settings

const running = new Set<OwnProgram<never>>()

/** A single exit listener for all programs. */
function killAll(): void {
  for (const program of running) program.kill()
}

/** A program of this library in its own process, which ends with this one. */
export class OwnProgram<Word> {
  readonly #child: ChildProcess
  #lastWords = ''

  /**
   * @param path of the program in `dist/`, or an absolute one.
   * @throws Error that says why such a process is impossible.
   */
  constructor(
    path: string,
    { args = [], env = {}, hasInput = false, givesWay = false }: ProgramOptions,
    { onWord, onFailure, onEnd }: ProgramEvents<Word>,
  ) {
    // Not imported: few processes start one, and each would load this, with all that it needs of the network.
    const { fork } = process.getBuiltinModule('node:child_process')
    const child = fork(programFile(path), [...args], {
      execArgv: [],
      env: {
        ...environment(),
        ...env,
        [begunPrograms]: notBegunBy(isAbsolute(path) ? basename(path) : path),
      },
      stdio: [hasInput ? 'pipe' : 'ignore', 'ignore', 'pipe', 'ipc'],
      serialization: 'advanced',
    })
    this.#child = child
    child.on('error', ({ message }) => {
      this.kill()
      onFailure(message)
    })
    if (child.pid === undefined) return // not started: the error event follows
    if (givesWay) lowerPriority(child.pid)
    if (running.size === 0) process.prependListener('exit', killAll) // before its files are removed
    running.add(this)
    child
      .stderr!.setEncoding('utf8')
      .on('data', (words: string) => (this.#lastWords = (this.#lastWords + words).slice(-lastWordsKept)))
    child.on('message', (word) => onWord(word as Word))
    child.on('close', (code, signal) => {
      this.#forget()
      onEnd({ code, way: signal ?? `exit code ${code}`, lastWords: this.#lastWords.trim() })
    })
  }

  /** Only if it `hasInput`. */
  get input(): Writable {
    return this.#child.stdin!
  }

  /** Messages to a process that is ending are lost; its end is reported. */
  send(message: object): void {
    this.#child.send(message, () => {})
  }

  /** Ends it at once, whatever it is doing. */
  kill(): void {
    if (!running.has(this)) return
    this.#forget()
    this.#child.kill('SIGKILL')
  }

  /** Like {@link kill}; resolves when the process has gone, or the system keeps it. */
  killed(): Promise<void> {
    const { pid, exitCode, signalCode } = this.#child
    this.kill()
    if (pid === undefined || exitCode !== null || signalCode !== null) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, mostEndingMs)
      this.#child.once('exit', () => {
        clearTimeout(timer)
        resolve()
      })
    })
  }

  /** Lets this process exit while the program runs. */
  unref(): void {
    this.#child.unref()
    this.#child.channel?.unref()
    ;(this.#child.stderr as Socket | null)?.unref()
  }

  #forget(): void {
    if (running.delete(this) && running.size === 0) process.off('exit', killAll)
  }
}

const lowestPriority = constants.priority.PRIORITY_LOW

/**
 * Lowers the priority of a program that has just begun, before it has further threads: on Linux each has its own, which is that of
 * the thread that starts it. No lower: with 19, where others compute all the time, a model takes three times as long to try.
 */
function lowerPriority(pid: number): void {
  try {
    setPriority(pid, Math.min(lowestPriority, getPriority() + constants.priority.PRIORITY_BELOW_NORMAL))
  } catch {
    // it keeps that of this process, which may be lower
  }
}

/**
 * The programs begun so far, including this one.
 *
 * @throws Error if this process was itself started to run it. Its Node.js then only runs the application (a
 * single executable), which would start itself forever.
 */
function notBegunBy(path: string): string {
  const begun = setting(begunPrograms)?.split(' ') ?? []
  if (begun.includes(path))
    throw new Error(
      `${process.execPath} cannot run other programs as Node.js does: started to run ${path}, it ran the application`,
    )
  return [...begun, path].join(' ')
}

/**
 * The environment of this process, without variables that would debug the program or repeat actions of this
 * process. Certificates are left out as well: Node.js takes
 * 60 ms to read them at each start, and no program uses the network.
 */
function environment(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS, NODE_EXTRA_CA_CERTS: _, ...env } = process.env
  // With Yarn Plug'n'Play these options make packages resolvable.
  return NODE_OPTIONS !== undefined && 'pnp' in process.versions ? { ...env, NODE_OPTIONS } : env
}

/**
 * The compiled program.
 *
 * @throws Error if it does not exist, or if this Node.js runs only its application, which would be started
 * again.
 */
function programFile(path: string): string {
  const sea = process.getBuiltinModule?.('node:sea') as { isSea(): boolean } | undefined
  if (sea?.isSea() === true)
    throw new Error('this is a single executable, which cannot run other programs as Node.js does')
  return isAbsolute(path) ? path : ownFile(path)
}
