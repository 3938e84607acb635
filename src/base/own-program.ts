import { fork, type ChildProcess } from 'node:child_process'
import { basename, isAbsolute } from 'node:path'
import type { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { ownFile } from './own-package.ts'

const lastWordsKept = 500
/** For the end of one that was killed it is not waited longer: the system may keep it for as long as a disk does not answer. */
const mostEndingMs = 1000

/** How a program ended. */
export interface ProgramEnd {
  readonly code: number | null
  /** By which signal, or with which exit code, in words. */
  readonly way: string
  /** The end of what it said on its standard error. */
  readonly lastWords: string
}

/** What is done with what comes of a program; each is called later. */
export interface ProgramEvents<Word> {
  onWord(word: Word): void
  /** It could not be started. */
  onFailure(reason: string): void
  onEnd(end: ProgramEnd): void
}

export interface ProgramOptions {
  readonly args?: readonly string[]
  /** Set beside what this process has. */
  readonly env?: Readonly<Record<string, string>>
  /** Whether it is told something by its standard input. */
  readonly hasInput?: boolean
}

/** Names, in the environment of a process, the programs that it and those before it were started to run. */
const begunPrograms = 'ZEROHOP_PROGRAMS'

const running = new Set<OwnProgram<never>>()

/** One listener, however many there are. */
function killAll(): void {
  for (const program of running) program.kill()
}

/** A program of this library in a process of its own, which ends with this one. */
export class OwnProgram<Word> {
  readonly #child: ChildProcess
  #lastWords = ''

  /**
   * @param path of the program in `dist/`, or an absolute one.
   * @throws Error that says why there can be no such process.
   */
  constructor(
    path: string,
    { args = [], env = {}, hasInput = false }: ProgramOptions,
    { onWord, onFailure, onEnd }: ProgramEvents<Word>,
  ) {
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
    if (child.pid === undefined) return // nothing of it is there but the error that it is about to tell, not even its pipes
    if (running.size === 0) process.prependListener('exit', killAll) // before what it writes is removed
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

  /** Only of one that `hasInput`. */
  get input(): Writable {
    return this.#child.stdin!
  }

  /** What is said to one that is ending is lost: its end is told. */
  send(message: object): void {
    this.#child.send(message, () => {})
  }

  /** It ends at once, whatever it is doing. */
  kill(): void {
    if (!running.has(this)) return
    this.#forget()
    this.#child.kill('SIGKILL')
  }

  /** The same; resolves when nothing of it is left, or the system keeps it. */
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

  /** It does not hold this process any more. */
  unref(): void {
    this.#child.unref()
    this.#child.channel?.unref()
    ;(this.#child.stderr as Socket | null)?.unref()
  }

  #forget(): void {
    if (running.delete(this) && running.size === 0) process.off('exit', killAll)
  }
}

/**
 * The programs that were begun, with one more.
 *
 * @throws Error where this process was itself started to run it: its Node.js runs nothing but the application, which would go on for ever.
 */
function notBegunBy(path: string): string {
  const begun = process.env[begunPrograms]?.split(' ') ?? []
  if (begun.includes(path))
    throw new Error(
      `${process.execPath} is no Node.js for other programs: it was started to run ${path}, and runs the application`,
    )
  return [...begun, path].join(' ')
}

/** Of this process's, without what would have the program be looked into, or do the same again. */
function environment(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS, ...env } = process.env
  // There it is by these options that packages are found.
  return NODE_OPTIONS !== undefined && 'pnp' in process.versions ? { ...env, NODE_OPTIONS } : env
}

/**
 * The compiled program.
 *
 * @throws Error where there is none, or nothing but the application to run it: that would be started once more.
 */
function programFile(path: string): string {
  const sea = process.getBuiltinModule?.('node:sea') as { isSea(): boolean } | undefined
  if (sea?.isSea() === true)
    throw new Error('this is a single executable, which is no Node.js for other programs')
  return isAbsolute(path) ? path : ownFile(path)
}
