import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { invalidArgument } from '../../errors.ts'
import { readOptions } from '../../options/plain-options.ts'

/** How an engine is served to other processes. */
export interface ServeOptions {
  /**
   * The Unix socket by which clients find it, in a folder that only this user may enter; one that is not there is made. On
   * Windows the name of a pipe is made from it.
   */
  path: string
  /** Requests that each client may have in flight; it refuses more with `ERR_QUEUE_FULL` itself. Default 1024. */
  maxRequests?: number
  /**
   * Bytes of requests that each client may have in flight, and of its longest request and answer. What is over it waits, in the client's
   * memory. Default 256 MiB.
   */
  maxBytes?: number
  /**
   * How long it is served without any client, in milliseconds; then the server is closed. For the first of them it waits 10 000 at least.
   * Default: without end.
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
  } = readOptions('options', given, ['path', 'maxRequests', 'maxBytes', 'idleMs'])
  return {
    path: checkPath('options.path', path),
    maxRequests: checkCount('options.maxRequests', maxRequests, 1, 2 ** 20),
    maxBytes: checkCount('options.maxBytes', maxBytes, 65_536, mostBytes),
    idleMs: idleMs === undefined ? undefined : checkDuration('options.idleMs', idleMs),
  }
}

/** A path is checked further where it is used. */
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

/** The process that serves where none does. */
export interface SpawnOptions {
  /**
   * A module whose default export is an `InferenceEngine`, or a function that makes one (or a promise of it), with its models loaded. A
   * path or a `file:` URL.
   */
  module: string | URL
  /** How long it stays without any client, in milliseconds. Default 60 000. */
  idleMs?: number
  /** Options of Node, as of `child_process.fork`. Default: those of this process. */
  execArgv?: readonly string[]
  /** Its environment. Default: that of this process. */
  env?: Readonly<Record<string, string>>
}

/** How a serving process is reached. */
export interface ConnectOptions {
  /** How long it is tried, in milliseconds, at first and after the serving process has gone. Default 5000; 60 000 with `spawn`. */
  timeoutMs?: number
  /** Starts the serving process where there is none: exactly one, however many ask at once. Default: none is started. */
  spawn?: SpawnOptions
  /** `false`: the socket carries requests and answers also where memory could be shared. Default `true`. */
  sharedMemory?: boolean
}

/** The same with defaults in place. */
export interface CheckedConnectOptions {
  readonly timeoutMs: number
  readonly spawn: (Omit<SpawnOptions, 'module'> & { readonly module: string; readonly idleMs: number }) | null
  readonly sharedMemory: boolean
}

/**
 * Checks what {@link connect} is given.
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

function checkSpawn(options: unknown): CheckedConnectOptions['spawn'] {
  const {
    module,
    idleMs = 60_000,
    execArgv,
    env,
  } = readOptions('options.spawn', options, ['module', 'idleMs', 'execArgv', 'env'])
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
    ...(execArgv === undefined ? {} : { execArgv: execArgv as string[] }),
    ...(env === undefined ? {} : { env: env as Record<string, string> }),
  }
}

function moduleUrl(module: unknown): string {
  if (module instanceof URL && module.protocol === 'file:') return module.href
  if (typeof module === 'string' && module.startsWith('file:')) return module
  if (typeof module === 'string' && module !== '') return pathToFileURL(resolve(module)).href
  throw invalidArgument('options.spawn.module', 'a path or a file: URL', module)
}
