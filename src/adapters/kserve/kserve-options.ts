import { readOptions } from '../../options/plain-options.ts'
import { invalidArgument } from '../../errors.ts'

/** Options and limits of {@link kserve}. */
export interface KserveOptions {
  /** Name in the server's metadata. Clients made for Triton may expect `'triton'`. Default `'zerohop'`. */
  serverName?: string
  /**
   * Whether clients may load models from the engine's repositories, and unload any model. Default `false`:
   * such requests get 403.
   */
  modelControl?: boolean
  /** Most bytes of a body. Default 64 MiB, as in Triton. */
  maxBodyBytes?: number
  /**
   * Most bytes of a decompressed body; a small compressed one can grow that much. `maxBodyBytes` applies as
   * well. Default 4 MiB.
   */
  maxDecompressedBytes?: number
  /** Most bytes of JSON in a body, and of text in binary `BYTES`. Default 16 MiB. */
  maxJsonBytes?: number
  /**
   * Most values and names in that JSON, and most text elements in binary `BYTES`. Each takes many times its
   * size in memory. Default 1 048 576.
   */
  maxJsonValues?: number
  /**
   * Most bytes of the bodies of all requests at once; at least `maxBodyBytes`. A request beyond it gets 503.
   * Default 1 GiB.
   */
  maxHeldBytes?: number
  /** Most inputs, and most outputs, of a request. Default 64. */
  maxTensors?: number
  /** Most characters of a name, a request id or a sequence id. Default 256. */
  maxNameLength?: number
  /** Milliseconds a body may take to arrive; then 408. Default 30 000. */
  bodyTimeoutMs?: number
  /**
   * Milliseconds a request may take, from its headers to the last byte of the answer; then 504. Loading and
   * unloading are exempt. Default 60 000.
   */
  timeoutMs?: number
  /** Smaller answers are not compressed, in bytes; `Infinity` turns compression off. Default 1024. */
  compressFromBytes?: number
}

/** The options, checked, with defaults. */
export type ResolvedKserveOptions = Readonly<Required<KserveOptions>>

const mebibyte = 2 ** 20
/** Most bytes of a `Buffer` in every supported version of Node. */
const mostBytes = 2 ** 32

/** @throws InferenceError `ERR_INVALID_ARG`. */
export function checkKserveOptions(given: unknown): ResolvedKserveOptions {
  const names = [
    'serverName',
    'modelControl',
    'maxBodyBytes',
    'maxDecompressedBytes',
    'maxJsonBytes',
    'maxJsonValues',
    'maxHeldBytes',
    'maxTensors',
    'maxNameLength',
    'bodyTimeoutMs',
    'timeoutMs',
    'compressFromBytes',
  ] as const
  const options = readOptions('options', given, names)
  const count = (name: (typeof names)[number], standard: number, most: number) => {
    const { [name]: value = standard } = options
    if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= most) return value as number
    throw invalidArgument(`options.${name}`, `a whole number from 1 to ${most}`, value)
  }
  const { serverName = 'zerohop', modelControl = false, compressFromBytes = 1024 } = options
  if (typeof serverName !== 'string' || serverName === '')
    throw invalidArgument('options.serverName', "a string that is not ''", serverName)
  if (typeof modelControl !== 'boolean')
    throw invalidArgument('options.modelControl', 'true or false', modelControl)
  if (typeof compressFromBytes !== 'number' || !(compressFromBytes >= 0))
    throw invalidArgument('options.compressFromBytes', 'a number, 0 or more', compressFromBytes)
  const maxBodyBytes = count('maxBodyBytes', 64 * mebibyte, mostBytes)
  const maxHeldBytes = count('maxHeldBytes', Math.max(1024 * mebibyte, maxBodyBytes), Number.MAX_SAFE_INTEGER)
  if (maxHeldBytes < maxBodyBytes)
    throw invalidArgument('options.maxHeldBytes', `maxBodyBytes (${maxBodyBytes}) or more`, maxHeldBytes)
  return {
    serverName,
    modelControl,
    maxBodyBytes,
    maxDecompressedBytes: count('maxDecompressedBytes', 4 * mebibyte, mostBytes),
    maxJsonBytes: count('maxJsonBytes', 16 * mebibyte, 256 * mebibyte),
    maxJsonValues: count('maxJsonValues', 2 ** 20, 2 ** 26),
    maxHeldBytes,
    maxTensors: count('maxTensors', 64, 65_536),
    maxNameLength: count('maxNameLength', 256, 65_536),
    bodyTimeoutMs: count('bodyTimeoutMs', 30_000, 2 ** 31 - 1),
    timeoutMs: count('timeoutMs', 60_000, 2 ** 31 - 1),
    compressFromBytes,
  }
}
