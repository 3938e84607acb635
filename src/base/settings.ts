/**
 * The environment variables that set something of zerohop. They are read where they apply, from `process.env` as it is
 * then. No other file reads them.
 */
export interface Settings {
  /** `off`, or a folder: the default of the engine option `cache`. */
  readonly ZEROHOP_CACHE?: string | undefined
  /** `none`: makes `'none'` the default of the engine option `verify`. */
  readonly ZEROHOP_VERIFY?: string | undefined
  /** `binding`: makes the engine option `executor: 'auto'` mean `'binding'`. */
  readonly ZEROHOP_EXECUTOR?: string | undefined
  /** The path of an addon to load instead of the installed one, or `off` for none. Read once per thread. */
  readonly ZEROHOP_NATIVE?: string | undefined
  /**
   * Set by zerohop for its own child processes: the programs that they and their parents were started to run, separated
   * by spaces. Do not set it.
   */
  readonly ZEROHOP_PROGRAMS?: string | undefined
}

/** The value of a setting now; `undefined` if it is not set. */
export function setting(name: keyof Settings): string | undefined {
  return process.env[name]
}
