import { join } from 'node:path'
import { isPipeline } from '../../options/resolve-pipeline-config.ts'
import { defaultVersion, readVersion } from '../../options/version-options.ts'
import { InferenceError, invalidArgument, type InferenceErrorCode } from '../../errors.ts'
import { FolderState, folderState } from './folder-state.ts'
import type { VersionConfig } from './model-folder.ts'

/** What a watch does to an engine. */
export interface WatchTarget {
  /** What a model's folder asks for: each of its versions. */
  read(name: string): Promise<readonly VersionConfig[]>
  /** Loads a version, in place of the one that is loaded; `accept` is asked before it serves. */
  load(name: string, config: VersionConfig, accept: () => Promise<void>): Promise<void>
  /** @throws InferenceError `ERR_MODEL_IN_USE` for what a pipeline has as a step. */
  unload(name: string, version: number): Promise<void>
  /** Told of what has been done, or could not be. */
  tell(event: WatchEvent): void
}

/** See `RepositoryEvent`. */
export interface WatchEvent {
  readonly type: 'loaded' | 'unloaded' | 'failed'
  readonly model: string
  readonly version?: number
  readonly error?: InferenceError
}

/** The stamp of a folder that is not there. */
const absent = ''

/**
 * One model's folder: what of it is loaded, and whether it has changed since. It is read when none of its files has changed
 * for a while, and what was read is served only if none has changed until then.
 */
export class WatchedModel {
  readonly name: string
  readonly #folder: string
  readonly #target: WatchTarget
  /** What was seen last, and since when. */
  #seen: string | null = null
  #sinceMs = 0
  /** What was read last, whatever came of it. */
  #read: string | null = null
  /** What is loaded: by version, the stamp of its files. */
  readonly #loaded = new Map<number, string>()
  #work: Promise<void> | null = null
  /** Why it cannot be loaded as others are now; `null` when it can. */
  #lacking: string | null = null
  /** Why it cannot be looked at; `null` when it can. */
  #unreadable: string | null = null

  constructor(repository: string, name: string, target: WatchTarget) {
    this.name = name
    this.#folder = join(repository, name)
    this.#target = target
  }

  /** Whether a version of it was loaded, and not unloaded since. */
  get isLoaded(): boolean {
    return this.#loaded.size > 0
  }

  /** Whether its files are not known to have been left alone for long enough to be read. */
  get isYoung(): boolean {
    return this.#seen !== this.#read
  }

  /** Whether nothing is left of it. */
  get gone(): boolean {
    return this.#work === null && this.#seen === absent && this.#loaded.size === 0
  }

  /** Resolves when what was begun for it is done; `null` for nothing. */
  get work(): Promise<void> | null {
    return this.#work
  }

  /**
   * Looks at its files, and begins to do what is to be done for them; see {@link work}.
   *
   * @param isSettled whether what was not changed since a time (in milliseconds since the epoch) need not be watched first.
   */
  async look(nowMs: number, debounceMs: number, isSettled: (changedAtMs: number) => boolean): Promise<void> {
    const state = await this.#state()
    if (state === undefined) return
    const stamp = state === null ? absent : `${state.stamp}\n`
    if (stamp !== this.#seen) {
      this.#sinceMs = nowMs
      this.#seen = stamp
    }
    const settled = nowMs - this.#sinceMs >= debounceMs || (state !== null && isSettled(state.changedAtMs))
    if (this.#work !== null || stamp === this.#read || !settled) return
    this.#read = stamp
    this.#work = this.#follow(state).finally(() => (this.#work = null))
  }

  /** `undefined` when it cannot be looked at, which is told once: what there is serves on. */
  async #state(): Promise<FolderState | null | undefined> {
    try {
      const state = await folderState(this.#folder)
      this.#unreadable = null
      return state
    } catch (error) {
      const { message } = error as Error
      if (message !== this.#unreadable)
        this.#target.tell({ type: 'failed', model: this.name, error: typed(this.name, error as Error) })
      this.#unreadable = message
      return undefined
    }
  }

  async #follow(state: FolderState | null): Promise<void> {
    try {
      const wanted = state === null ? [] : await this.#target.read(this.name)
      const versions = new Map(
        wanted.map((config) => [readVersion(config.version ?? defaultVersion, 'version'), config]),
      )
      await Promise.all([...versions].map(([version, config]) => this.#load(version, config, state!)))
      if (![...versions.keys()].every((version) => this.#loaded.has(version))) return // what there is serves on
      const left = [...this.#loaded.keys()].filter((version) => !versions.has(version))
      await Promise.all(left.map((version) => this.#unload(version)))
    } catch (error) {
      this.#target.tell({ type: 'failed', model: this.name, error: typed(this.name, error as Error) })
    }
  }

  async #load(version: number, config: VersionConfig, state: FolderState): Promise<void> {
    const stamp = state.stampOfVersion(version)
    if (this.#loaded.get(version) === stamp) return
    let changed = false
    const accept = async (): Promise<void> => {
      changed = (await folderState(this.#folder))?.stampOfVersion(version) !== stamp
      if (changed)
        throw new InferenceError(
          'ERR_MODEL_LOAD',
          `Model '${this.name}': its files have changed while it was loaded.`,
          { model: this.name },
        )
    }
    try {
      await this.#target.load(this.name, config, accept)
      this.#loaded.set(version, stamp)
      this.#lacking = null
      this.#target.tell({ type: 'loaded', model: this.name, version })
    } catch (error) {
      const failure = typed(this.name, error as Error)
      const isForOthers = isPipeline(config) && forOthers.includes(failure.code)
      if (isForOthers) this.#read = null // to be tried at each look: those may come, or change
      if (!changed && failure.message !== this.#lacking)
        this.#target.tell({ type: 'failed', model: this.name, version, error: failure })
      this.#lacking = isForOthers ? failure.message : null
    }
  }

  async #unload(version: number): Promise<void> {
    const stamp = this.#loaded.get(version)!
    this.#loaded.delete(version)
    try {
      await this.#target.unload(this.name, version)
    } catch (error) {
      if (!(error instanceof InferenceError) || error.code !== 'ERR_MODEL_IN_USE') throw error
      this.#loaded.set(version, stamp)
      this.#read = null // to be tried at each look, until no pipeline has it
      return
    }
    this.#target.tell({ type: 'unloaded', model: this.name, version })
  }
}

/** What a pipeline is refused with for the sake of the models of its steps: they are not there, or do not fit. */
const forOthers: readonly InferenceErrorCode[] = [
  'ERR_MODEL_NOT_FOUND',
  'ERR_MODEL_NOT_READY',
  'ERR_MODEL_CONFIG',
]

/** An error of the file system has no type of its own. */
export function typed(model: string, error: Error): InferenceError {
  if (error instanceof InferenceError) return error
  return invalidArgument('path', 'files that can be read', error.message, {
    code: 'ERR_MODEL_LOAD',
    cause: error,
    ...(model === '' ? {} : { model }),
  })
}
