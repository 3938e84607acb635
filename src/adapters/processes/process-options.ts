import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { invalidArgument } from '../../errors.ts'
import { defined, readOptions } from '../../options/plain-options.ts'

/** Options of {@link serve}. */
export interface ServeOptions {
  /**
   * Path of the Unix socket for clients, in a folder that only this user may enter. A missing folder is
   * created. On Windows a pipe's name is derived from the path.
   */
  path: string
  /**
   * Requests that each client may have in flight. The client itself refuses more with `ERR_QUEUE_FULL`.
   * Default 1024.
   */
  maxRequests?: number
  /**
   * Bytes of requests that each client may have in flight, and of its longest request and answer. Further
   * requests wait in the client's memory. Default 256 MiB.
   */
  maxBytes?: number
  /**
   * Milliseconds without a client after which the server closes. It waits at least 10 000 for the first
   * client. Default: no limit.
   */
  idleMs?: number
}

export const defaultMaxRequests = 1024
export const defaultMaxBytes = 2 ** 28
const mostBytes = 2 ** 30 - 4096

/**
 * Checks the options of {@link serve}.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkServeOptions(
  given: unknown,
): Required<Omit<ServeOptions, 'idleMs'>> & { readonly idleMs: number | undefined } {
  const {
    path,
    maxRequests = defaultMaxRequests,
    maxBytes = defaultMaxBytes,
    idleMs,
  } = readOptions('options', given, ['path', 'maxRequests', 'maxBytes', 'idleMs'], {
    example: "a plain object, as { path: '/folder/socket' }",
  })
  return {
    path: checkPath('options.path', path),
    maxRequests: checkCount('options.maxRequests', maxRequests, 1, 2 ** 20),
    maxBytes: checkCount('options.maxBytes', maxBytes, 65_536, mostBytes),
    idleMs: idleMs === undefined ? undefined : checkDuration('options.idleMs', idleMs),
  }
}

/** Other checks of the path happen where it is used. */
function checkPath(name: string, path: unknown): string {
  if (typeof path !== 'string' || path === '' || path.includes('\0'))
    throw invalidArgument(name, 'the path of a socket', path)
  return path
}

function checkCount(name: string, value: unknown, least: number, most: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
  throw invalidArgument(name, `a whole number from ${least} to ${most}`, value)
}

function checkDuration(name: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value < 2 ** 31) return value
  throw invalidArgument(name, 'milliseconds, 0 or more and less than 2^31', value)
}

/** How to start a serving process. */
export interface SpawnOptions {
  /**
   * A module whose default export is an `InferenceEngine` with its models loaded, or a function that returns
   * one (or a promise of it). A path or a `file:` URL.
   */
  module: string | URL
  /** Milliseconds without a client after which the process ends. Its other limits are the defaults of {@link serve}. Default 60 000. */
  idleMs?: number
  /** Node options of the process, as in `child_process.fork`. Default: those of this process. */
  execArgv?: readonly string[]
  /** Environment of the process. Default: that of this process. */
  env?: Readonly<Record<string, string>>
}

/** Options of {@link connect}. */
export interface ConnectOptions {
  /**
   * Milliseconds to keep trying to connect, at first and when the next call reconnects after the serving process has
   * gone, with pauses that grow from about 5 to about 500. Calls other than `infer` also give up when the process has
   * sent nothing for so long, or for 5000 if that is longer. Default 5000; 60 000 with `spawn`.
   */
  timeoutMs?: number
  /**
   * Starts a serving process if there is none: exactly one, however many clients ask at once. Default: none
   * is started.
   */
  spawn?: SpawnOptions
  /** `false`: requests and answers use the socket even if memory could be shared. Default `true`. */
  sharedMemory?: boolean
}

/** The options with defaults. */
export interface CheckedConnectOptions {
  readonly timeoutMs: number
  readonly spawn: CheckedSpawnOptions | null
  readonly sharedMemory: boolean
}

/** The same of {@link SpawnOptions}; `module` is a `file:` URL. */
export interface CheckedSpawnOptions extends Omit<SpawnOptions, 'module'> {
  readonly module: string
  readonly idleMs: number
}

/**
 * Checks the arguments of {@link connect}.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkConnectOptions(path: unknown, options: unknown): CheckedConnectOptions {
  checkPath('path', path)
  const {
    timeoutMs,
    spawn,
    sharedMemory = true,
  } = readOptions('options', options, ['timeoutMs', 'spawn', 'sharedMemory'])
  if (typeof sharedMemory !== 'boolean')
    throw invalidArgument('options.sharedMemory', 'true or false', sharedMemory)
  return {
    timeoutMs:
      timeoutMs === undefined
        ? spawn === undefined
          ? 5000
          : 60_000
        : checkDuration('options.timeoutMs', timeoutMs),
    spawn: spawn === undefined ? null : checkSpawn(spawn),
    sharedMemory,
  }
}

function checkSpawn(options: unknown): CheckedSpawnOptions {
  const {
    module,
    idleMs = 60_000,
    execArgv,
    env,
  } = readOptions('options.spawn', options, ['module', 'idleMs', 'execArgv', 'env'], {
    example: "a plain object, as { module: './engine.js' }",
  })
  if (
    execArgv !== undefined &&
    !(Array.isArray(execArgv) && execArgv.every((each) => typeof each === 'string'))
  )
    throw invalidArgument('options.spawn.execArgv', 'an array of strings', execArgv)
  if (
    env !== undefined &&
    (typeof env !== 'object' || env === null || !Object.values(env).every((each) => typeof each === 'string'))
  )
    throw invalidArgument('options.spawn.env', 'an object of strings', env)
  return {
    module: moduleUrl(module),
    idleMs: checkDuration('options.spawn.idleMs', idleMs),
    ...(defined({ execArgv, env }) as Pick<SpawnOptions, 'execArgv' | 'env'>),
  }
}

function moduleUrl(module: unknown): string {
  if (module instanceof URL && module.protocol === 'file:') return module.href
  if (typeof module === 'string' && module.startsWith('file:')) return module
  if (typeof module === 'string' && module !== '') return pathToFileURL(resolve(module)).href
  throw invalidArgument('options.spawn.module', 'a path or a file: URL', module)
}
