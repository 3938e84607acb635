import { resolve } from 'node:path'
import * as v from 'valibot'
import { filePath } from '../base/files.ts'
import { optionsOf } from './options-schema.ts'

/** Settings of the cache of compiled models. */
export interface CacheOptions {
  /**
   * Its folder, a path or a `file:` URL, in which only this user may write; it is made if it is not there. Default: `zerohop` in the
   * user's cache folder (`$XDG_CACHE_HOME` or `~/.cache`; `~/Library/Caches` on macOS, `%LOCALAPPDATA%` on Windows).
   */
  dir?: string | URL
  /** Most bytes that it keeps; what was not used for the longest time goes first. Default 4 GiB. */
  maxBytes?: number
}

/** Where a model is opened that is not known yet; see {@link EngineOptions.verify}. */
export type VerifyChoice = 'child' | 'none'

/** The cache with its options checked. */
export interface ResolvedCache {
  /** Absolute; `null` for the one in the user's cache folder. */
  readonly dir: string | null
  readonly maxBytes: number
}

/** What a model's sessions are opened from. */
export interface ModelOrigin {
  /** Whether that is its compiled form, out of the cache. */
  readonly compiled: boolean
  /** Why, or why not. */
  readonly reason: string
}

/** The cache of compiled models, as `engine.capabilities()` shows it. */
export interface CacheCapability {
  /** Whether compiled models are read from it and written to it. */
  readonly enabled: boolean
  /** Its folder; `null` for none. */
  readonly dir: string | null
  /** Why it is in use, or is not. */
  readonly reason: string
  /** What each of the engine's models was opened from, by its name; of several versions the one that serves. */
  readonly models: Readonly<Record<string, ModelOrigin>>
}

const defaultMaxBytes = 4 * 2 ** 30

/** Schema of `EngineOptions.cache`. */
export const cacheSchema = v.optional(
  v.union([
    v.literal(false),
    optionsOf({
      dir: v.optional(v.custom<string | URL>((given) => filePath(given) !== null, 'a path or a file: URL')),
      maxBytes: v.optional(v.pipe(v.number(), v.integer('a whole number'), v.minValue(0))),
    }),
  ]),
)

/** The cache that was asked for, or else the one of the environment variable `ZEROHOP_CACHE` (`off`, or a folder); `null` for none. */
export function resolveCache(
  given: false | CacheOptions | undefined,
  environment = process.env.ZEROHOP_CACHE,
): ResolvedCache | null {
  if (given === false || (given === undefined && environment === 'off')) return null
  const usual = environment === undefined || environment === '' || environment === 'off' ? null : environment
  const dir = given?.dir === undefined ? usual : filePath(given.dir)
  return { dir: dir === null ? null : resolve(dir), maxBytes: given?.maxBytes ?? defaultMaxBytes }
}

/** As {@link resolveCache}, of `EngineOptions.verify` and `ZEROHOP_VERIFY`. */
export function resolveVerify(
  given: VerifyChoice | undefined,
  environment = process.env.ZEROHOP_VERIFY,
): VerifyChoice {
  return given ?? (environment === 'none' ? 'none' : 'child')
}
