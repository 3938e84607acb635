import { readOptions } from '../../options/plain-options.ts'
import { invalidArgument } from '../../errors.ts'

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
export function checkPath(name: string, path: unknown): string {
  if (typeof path !== 'string' || path === '' || path.includes('\0'))
    throw invalidArgument(name, 'the path of a socket', path)
  return path
}

function checkCount(name: string, value: unknown, least: number, most: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
  throw invalidArgument(name, `a whole number from ${least} to ${most}`, value)
}

export function checkDuration(name: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value < 2 ** 31) return value
  throw invalidArgument(name, 'milliseconds, 0 or more and less than 2^31', value)
}
