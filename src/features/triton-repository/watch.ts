import { readdir, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import { InferenceError, type InferenceErrorCode, invalidArgument } from '../../errors.ts'
import { isPipeline } from '../../options/pipeline-config.ts'
import { defaultVersion, readVersion } from '../../options/method-options.ts'
import type { VersionConfig } from './model-folder.ts'
import { modelNames } from './read-repository.ts'
import type { ResolvedWatch } from './repository-options.ts'
import { isVersion } from './version-policy.ts'

/**
 * Keeps an engine in step with a model repository by polling its files: the system's change notifications do
 * not work across network file systems and containers. It does not keep the process alive.
 */
export class RepositoryWatch {
  readonly #repository: string
  readonly #names: readonly string[] | undefined
  readonly #options: ResolvedWatch
  readonly #clock: Clock
  readonly #target: WatchTarget
  readonly #models = new Map<string, WatchedModel>()
  #timer: unknown = null
  /** Ends the wait of {@link start}. */
  #goOn: () => void = () => {}
  #looking: Promise<void> = Promise.resolve()
  /** Models that are loaded after the others. */
  readonly #waiting = new Set<string>()
  #oneMoreWaits: () => void = () => {}
  /** What those wait for; `null` if there are none. */
  #othersDone: Promise<void> | null = null
  #unreadable: string | null = null
  #closed = false

  /** @param names of the models to watch; `undefined` for all. */
  constructor(
    path: string,
    names: readonly string[] | undefined,
    options: ResolvedWatch,
    clock: Clock,
    target: WatchTarget,
  ) {
    this.#repository = resolve(path)
    this.#names = names
    this.#options = options
    this.#clock = clock
    this.#target = { ...target, tell: (event) => (this.#closed ? undefined : target.tell(event)) }
  }

  /**
   * Loads what is there, and begins to watch. It waits once for files that have just changed to become old
   * enough. A model that is still being copied after that is loaded later.
   *
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` if there is no such folder.
   */
  async start(): Promise<void> {
    const nowMs = Date.now()
    await this.#look(await this.#present(), (changedAtMs) => changedAtMs <= nowMs - this.#options.debounceMs)
    if ([...this.#models.values()].some(({ isYoung }) => isYoung)) {
      await this.#passed(this.#options.debounceMs)
      await this.#look(await this.#present(), () => false)
    }
    await this.done()
    this.#schedule()
  }

  /**
   * Resolves when the work that this poll has begun for other models is done. Models that wait in the same
   * way are excluded, and all of them share one wait.
   */
  async others(name: string): Promise<void> {
    this.#waiting.add(name)
    this.#oneMoreWaits()
    await this.#looking
    await (this.#othersDone ??= this.#untilOthersAreDone())
    this.#waiting.delete(name)
  }

  async #untilOthersAreDone(): Promise<void> {
    const begun = [...this.#models.values()].map((model) => ({ model, work: model.work }))
    for (;;) {
      const left = begun.flatMap(({ model, work }) =>
        work === null || model.work !== work || this.#waiting.has(model.name) ? [] : [work],
      )
      if (left.length === 0) break
      await Promise.race([...left, new Promise<void>((resolve) => (this.#oneMoreWaits = resolve))])
    }
    this.#othersDone = null
  }

  /** Checks all models once, and begins the necessary work. */
  async look(): Promise<void> {
    try {
      await this.#look(await this.#present(), () => false)
      this.#unreadable = null
    } catch (error) {
      const { message } = error as Error
      if (message === this.#unreadable) return // reported before
      this.#unreadable = message
      this.#target.tell({ type: 'failed', model: '', error: typed('', error as Error) })
    }
  }

  /** Names of the models that the watch has loaded. */
  get loaded(): string[] {
    return [...this.#models.values()].flatMap(({ name, isLoaded }) => (isLoaded ? [name] : []))
  }

  /** Resolves when the work in progress is done. */
  async done(): Promise<void> {
    await Promise.all([...this.#models.values()].map(({ work }) => work))
  }

  /** Stops watching. Loaded models stay loaded. */
  close(): void {
    this.#closed = true
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
    this.#goOn()
  }

  /**
   * Resolves after so much time by this clock. The event loop's time may lag behind, so that its timers fire
   * early.
   */
  async #passed(ms: number): Promise<void> {
    const endMs = this.#clock.nowMs() + ms
    for (let left = ms; left > 0 && !this.#closed; left = endMs - this.#clock.nowMs()) await this.#wait(left)
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#goOn = resolve
      if (this.#closed) resolve()
      else this.#timer = this.#clock.setTimer(resolve, ms)
    })
  }

  async #present(): Promise<string[]> {
    const found = await modelNames(this.#repository)
    return this.#names === undefined ? found : found.filter((name) => this.#names!.includes(name))
  }

  #look(present: readonly string[], isSettled: (changedAtMs: number) => boolean): Promise<void> {
    const look = this.#lookAtAll(present, isSettled)
    this.#looking = look.catch(() => {})
    return look
  }

  async #lookAtAll(present: readonly string[], isSettled: (changedAtMs: number) => boolean): Promise<void> {
    for (const name of present) {
      if (!this.#models.has(name))
        this.#models.set(name, new WatchedModel(this.#repository, name, this.#target))
    }
    for (const model of this.#models.values()) {
      if (this.#closed) return
      await model.look(this.#clock.nowMs(), this.#options.debounceMs, isSettled)
      if (model.gone) this.#models.delete(model.name)
    }
  }

  /** Polls one after the other, however long each takes. */
  #schedule(): void {
    if (this.#closed) return
    this.#timer = this.#clock.setTimer(
      () => void this.look().then(() => this.#schedule()),
      this.#options.pollMs,
    )
  }
}

/** How a watch acts on an engine. */
interface WatchTarget {
  /** The configurations in a model's folder, one per version. */
  read(name: string): Promise<readonly VersionConfig[]>
  /** Loads a version, in place of the loaded one. `accept` is called before it serves. */
  load(name: string, config: VersionConfig, accept: () => Promise<void>): Promise<void>
  /** @throws InferenceError `ERR_MODEL_IN_USE` if a pipeline uses it as a step. */
  unload(name: string, version: number): Promise<void>
  /** Reports what was done, or failed. */
  tell(event: WatchEvent): void
}

/** See `RepositoryEvent`. */
interface WatchEvent {
  readonly type: 'loaded' | 'unloaded' | 'failed'
  readonly model: string
  readonly version?: number
  readonly error?: InferenceError
}

/** The stamp of a missing folder. */
const absent = ''

/**
 * One model's folder: what is loaded of it, and whether it has changed since. It is read once its files have
 * been unchanged for a while. What was read is served only if nothing has changed until then.
 */
class WatchedModel {
  readonly name: string
  readonly #folder: string
  readonly #target: WatchTarget
  /** The last seen stamp, and since when. */
  #seen: string | null = null
  #sinceMs = 0
  /** The stamp that was read last, whatever the outcome. */
  #read: string | null = null
  /** What is loaded: the stamp of the files, by version. */
  readonly #loaded = new Map<number, string>()
  #work: Promise<void> | null = null
  /** Why it cannot be loaded while other models are as they are; `null` if it can. */
  #lacking: string | null = null
  /** Why its files cannot be checked; `null` if they can. */
  #unreadable: string | null = null

  constructor(repository: string, name: string, target: WatchTarget) {
    this.name = name
    this.#folder = join(repository, name)
    this.#target = target
  }

  /** Whether a version of it is loaded. */
  get isLoaded(): boolean {
    return this.#loaded.size > 0
  }

  /** Whether its files may have changed too recently to be read. */
  get isYoung(): boolean {
    return this.#seen !== this.#read
  }

  /** Whether the folder and all loaded versions are gone. */
  get gone(): boolean {
    return this.#work === null && this.#seen === absent && this.#loaded.size === 0
  }

  /** Resolves when the work in progress is done; `null` for none. */
  get work(): Promise<void> | null {
    return this.#work
  }

  /**
   * Checks its files, and begins the necessary work; see {@link work}.
   *
   * @param isSettled whether files unchanged since a time (in milliseconds since the epoch) need no further
   * wait.
   */
  async look(nowMs: number, debounceMs: number, isSettled: (changedAtMs: number) => boolean): Promise<void> {
    const state = await this.#state()
    if (state === undefined) return
    const stamp = state === null ? absent : `${stampOf(state)}\n`
    if (stamp !== this.#seen) {
      this.#sinceMs = nowMs
      this.#seen = stamp
    }
    const settled = nowMs - this.#sinceMs >= debounceMs || (state !== null && isSettled(state.changedAtMs))
    if (this.#work !== null || stamp === this.#read || !settled) return
    this.#read = stamp
    this.#work = this.#follow(state).finally(() => (this.#work = null))
  }

  /** `undefined` if the folder cannot be read, which is reported once. Loaded versions keep serving. */
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
      if (![...versions.keys()].every((version) => this.#loaded.has(version))) return // loaded versions keep serving
      const left = [...this.#loaded.keys()].filter((version) => !versions.has(version))
      await Promise.all(left.map((version) => this.#unload(version)))
    } catch (error) {
      this.#target.tell({ type: 'failed', model: this.name, error: typed(this.name, error as Error) })
    }
  }

  async #load(version: number, config: VersionConfig, state: FolderState): Promise<void> {
    const stamp = stampOf(state, version)
    if (this.#loaded.get(version) === stamp) return
    let changed = false
    const accept = async (): Promise<void> => {
      const now = await folderState(this.#folder)
      changed = now === null || stampOf(now, version) !== stamp
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
      if (isForOthers) this.#read = null // retry at each poll: the other models may appear or change
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
      this.#read = null // retry at each poll, until no pipeline uses it
      return
    }
    this.#target.tell({ type: 'unloaded', model: this.name, version })
  }
}

/** Errors of a pipeline because of its steps' models: they are missing, or do not fit. */
const forOthers: readonly InferenceErrorCode[] = [
  'ERR_MODEL_NOT_FOUND',
  'ERR_MODEL_NOT_READY',
  'ERR_MODEL_CONFIG',
]

/** An error of the file system is no InferenceError. */
function typed(model: string, error: Error): InferenceError {
  if (error instanceof InferenceError) return error
  return invalidArgument('path', 'files that can be read', error.message, {
    code: 'ERR_MODEL_LOAD',
    cause: error,
    model: model || undefined,
  })
}

/** Most levels of nested folders that are checked. */
const deepest = 8

/** The files of a model's folder at one time, by their file system metadata. */
interface FolderState {
  /** Size, change time and inode of each file, by its path in the folder. */
  readonly files: ReadonlyMap<string, string>
  /** When the last of them was changed or moved here, in milliseconds since the epoch. */
  readonly changedAtMs: number
}

/**
 * A text that changes when a file is written, replaced, added or removed.
 *
 * @param version counts only the files that this version is loaded from. Default: all.
 */
function stampOf({ files }: FolderState, version?: number): string {
  const lines = [...files].flatMap(([path, state]) => {
    const folder = path.split('/', 1)[0]!
    const counts = version === undefined || !isVersion(folder) || folder === String(version)
    return counts ? [`${path} ${state}`] : []
  })
  return lines.sort().join('\n')
}

/**
 * Reads the metadata of all files below a folder. It follows links, but enters each folder only once per path
 * from the top, as a link may lead back up. `null` if there is no such folder.
 */
async function folderState(folder: string): Promise<FolderState | null> {
  const files = new Map<string, string>()
  let changedAtMs = 0
  const look = async (below: string, depth: number, seen: Set<string>): Promise<void> => {
    for (const name of await readdir(join(folder, below))) {
      const path = below === '' ? name : `${below}/${name}`
      const found = await stat(join(folder, path), { bigint: true }).catch(() => null)
      if (found === null) continue // gone since, or a dangling link
      const place = `${found.dev} ${found.ino}`
      if (!found.isDirectory()) files.set(path, `${found.size} ${found.mtimeNs} ${found.ctimeNs} ${place}`)
      else {
        files.set(path, 'folder')
        // Several versions may be links to the same folder; each is entered.
        const seenHere = depth === 1 ? new Set(seen) : seen
        if (depth < deepest && !seenHere.has(place))
          await look(path, depth + 1, seenHere.add(place)).catch(ifThere)
      }
      changedAtMs = Math.max(changedAtMs, Number(found.ctimeMs))
    }
  }
  try {
    const { dev, ino } = await stat(folder, { bigint: true })
    await look('', 1, new Set([`${dev} ${ino}`]))
  } catch (error) {
    if (isGone(error)) return null
    throw error
  }
  return { files, changedAtMs }
}

function ifThere(error: unknown): void {
  if (!isGone(error)) throw error
}

function isGone(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'ENOENT' || code === 'ENOTDIR'
}
