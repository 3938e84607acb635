import { stat } from 'node:fs/promises'
import { availableCores } from '../../base/available-resources.ts'
import type { CacheCapability, ResolvedEngineOptions } from '../../options/engine-options.ts'
import type { ModelRuntime } from '../../options/session-options.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { CacheFolder, readSealed, writeSealed } from './cache-folder.ts'
import {
  ofCompiled,
  whyNotCompiled,
  asItIs,
  type PreparedModel,
  type SessionNotes,
} from './prepared-model.ts'
import { hashOfBytes } from './content-hash.ts'
import {
  graphOf,
  isAsRead,
  mayBeCompiled,
  publishEntry,
  readEntry,
  type Manifest,
  keyOf,
  type MadeFor,
  madeFor,
  whyMissing,
} from './entry.ts'
import { EntryLock, remove, removeAtExit, Turns } from './entry-lock.ts'
import { evict, sweep, touch, lackOfRoom } from './eviction.ts'
import { contentOf, fileStateOf, type ModelContent, TooManyFiles } from './model-content.ts'
import { ModelTrial, type TrialOptions, type TrialResult } from './model-trial.ts'
import { warn } from '../../base/warnings.ts'

/** The engine options that preparation needs. */
type PreparationOptions = Pick<ResolvedEngineOptions, 'cache' | 'verify'> & TrialOptions

/** A model that is prepared with a cache. */
interface Job {
  readonly trial: ModelTrial
  readonly content: ModelContent
  readonly madeFor: MadeFor
  readonly key: string
  readonly cache: CacheFolder
  /** Why it never has a compiled form; else `null`. */
  readonly obstacle: string | null
  readonly signal: AbortSignal
}

/**
 * One load of the process tries a model, on behalf of all that want it. At most one trial per core runs at a time, and
 * at least two.
 */
const turns = new Turns(Math.max(2, availableCores().usable))

/** Notes are written one after the other, for all loads. */
let writing = Promise.resolve()

/** Models tried by this process that no cache records. */
const triedHere = new Set<string>()

/** Keys of models that were found missing in a read-only cache. */
const warnedOf = new Set<string>()

/**
 * Decides what a model's sessions are opened from: its compiled form, if the cache has it. An unknown model is first
 * tried and compiled in a child process.
 */
export class ModelPreparation {
  readonly #options: PreparationOptions
  #wasAsked = false
  #cache: CacheFolder | null = null
  /** Why the cache is not used; else `null`. */
  #obstacle: string | null = null
  /** Why the last attempt to write to it failed; else `null`. */
  #trouble: string | null = null

  constructor(options: PreparationOptions) {
    this.#options = options
  }

  /** The state of the cache so far. */
  capability(): Omit<CacheCapability, 'models'> {
    if (this.#options.cache === null)
      return { enabled: false, dir: null, reason: 'turned off by cache: false, or by ZEROHOP_CACHE=off' }
    if (!this.#wasAsked)
      return { enabled: true, dir: this.#options.cache.dir, reason: 'no model has been loaded' }
    const dir = this.#cache?.root ?? this.#options.cache.dir
    const reason = this.#obstacle ?? this.#trouble
    const readOnly = this.#cache?.readOnly ?? null
    const use =
      readOnly === null
        ? 'compiled models are read from it and written to it'
        : `compiled models are read from it; nothing is written to it: ${readOnly}`
    return { enabled: reason === null, dir, reason: reason ?? use }
  }

  /**
   * Prepares a model for loading.
   *
   * @param runtimeOf called only if needed: it may load ONNX Runtime.
   * @throws InferenceError `ERR_MODEL_LOAD` for a model that crashes or hangs the child process; the reason of
   * `signal`.
   */
  async prepare(
    model: string,
    config: ResolvedConfig,
    runtimeOf: () => ModelRuntime,
    signal: AbortSignal,
  ): Promise<PreparedModel> {
    const { cache: asked, verify } = this.#options
    const cache = asked === null ? null : this.#open(asked.dir)
    if (cache === null && verify === 'none') return asItIs(this.capability().reason)
    const runtime = runtimeOf()
    const trial = new ModelTrial(model, config, runtime, this.#options)
    if (cache === null) return this.#withoutCache(trial, runtime, config, this.capability().reason, signal)
    let job: Job
    try {
      job = await this.#jobFor(cache, trial, config, runtime, signal)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof TooManyFiles && verify !== 'none')
        return this.#withoutCache(trial, runtime, config, error.message, signal)
      return asItIs(`its files cannot be read: ${(error as Error).message}`) // opening it reports the error in detail
    }
    const known = await this.#known(job, cache.readOnly === null)
    if (known !== null) return this.#prepared(job, known)
    const why = cache.readOnly === null && verify === 'child' ? null : await whyMissing(cache, job.madeFor)
    if (why !== null && cache.readOnly !== null) warnOfMissing(model, job, why)
    if (verify === 'none') return asItIs(`${why}, and with verify: 'none' nothing is compiled`)
    const made = await turns.take(`${cache.root} ${job.key}`, signal, () => this.#make(job))
    if (typeof made !== 'string') return this.#prepared(job, made)
    return asItIs(why === null ? made : `${why}; ${made}`)
  }

  /**
   * What the cache has of a model; nothing is compiled.
   *
   * @returns the reason, if it has nothing.
   */
  async lookUp(
    model: string,
    config: ResolvedConfig,
    runtime: ModelRuntime,
    signal: AbortSignal,
  ): Promise<Manifest | string> {
    const cache = this.#options.cache === null ? null : this.#open(this.#options.cache.dir)
    if (cache === null) return this.capability().reason
    const trial = new ModelTrial(model, config, runtime, this.#options)
    const job = await this.#jobFor(cache, trial, config, runtime, signal)
    return (await this.#known(job, false)) ?? (await whyMissing(cache, job.madeFor))
  }

  async #jobFor(
    cache: CacheFolder,
    trial: ModelTrial,
    config: ResolvedConfig,
    runtime: ModelRuntime,
    signal: AbortSignal,
  ): Promise<Job> {
    const content = await contentOf(config, cache, signal)
    const obstacle = whyNotCompiled(config, runtime.onCpuOnly)
    const made = madeFor(content.hash, runtime, config, obstacle)
    return { trial, content, madeFor: made, key: keyOf(made), cache, obstacle, signal }
  }

  /** Once per load: the folder may have been removed, or become usable, since. */
  #open(dir: string | null): CacheFolder | null {
    this.#wasAsked = true
    try {
      this.#cache = CacheFolder.open(dir)
      this.#obstacle = null
    } catch (error) {
      this.#cache = null
      this.#obstacle = `it cannot be used: ${(error as Error).message}`
    }
    return this.#cache
  }

  async #withoutCache(
    trial: ModelTrial,
    runtime: ModelRuntime,
    config: ResolvedConfig,
    why: string,
    signal: AbortSignal,
  ): Promise<PreparedModel> {
    const { path, bytes } = config
    const state =
      bytes === null ? `${path} ${fileStateOf(path)}` : await hashOfBytes(new Uint8Array(bytes), signal)
    const key = trial.named(keyOf(madeFor(state, runtime, config, null)))
    await turns.take(key, signal, async () => {
      if (triedHere.has(key)) return
      const { error } = await trial.run(
        null,
        bytes?.byteLength ?? (await stat(path).catch(() => null))?.size ?? 0,
        signal,
      )
      if (error === null) triedHere.add(key)
    })
    return asItIs(why)
  }

  /** The cache's record of a model; `null` if the model should be tried (again), or can be compiled now. */
  async #known({ trial, cache, key }: Job, canWrite = true): Promise<Manifest | null> {
    const manifest = await readEntry(cache, key)
    if (manifest === null || (this.#options.verify === 'child' && trial.isToRun && !manifest.wasRun))
      return null
    return canWrite && mayBeCompiled(manifest, this.#options.cache!.maxBytes) ? null : manifest
  }

  /** Makes an entry. Returns the reason if another process is making it, or it cannot be made. */
  async #make(job: Job): Promise<Manifest | string> {
    const { trial, cache, key, content, signal } = job
    let lock: EntryLock | null = null
    let folder: string | null = null
    try {
      if (cache.readOnly !== null) this.#cannotWrite(new Error(cache.readOnly))
      else lock = await EntryLock.take(cache.lock(key), trial.limitMs(content.byteLength), signal)
    } catch (error) {
      signal.throwIfAborted()
      this.#cannotWrite(error as Error)
    }
    try {
      const known = await this.#known(job, lock !== null) // another process may have made it
      if (known !== null) return known
      if (lock !== null) await sweep(cache).catch(() => {}) // unfinished work may take the space
      if (lock !== null) folder = await cache.temporary().catch((error: Error) => this.#cannotWrite(error))
      if (folder !== null) removeAtExit(folder)
      return await this.#tried(job, folder)
    } finally {
      if (folder !== null) await remove(folder)
      await lock?.release()
    }
  }

  /** @param folder to write to; `null` if that is not possible, or another process does it. */
  async #tried(job: Job, folder: string | null): Promise<Manifest | string> {
    const { trial, content, key, signal } = job
    const trouble =
      folder === null
        ? (this.#trouble ?? 'another process has been compiling it for too long')
        : await this.#lackOfRoom(job)
    if (trouble !== null && triedHere.has(trial.named(key))) return trouble
    const target = job.obstacle === null && trouble === null ? folder : null
    const found = await trial.run(target, content.byteLength, signal)
    if (!found.started) return found.reason
    if (found.error !== null) return `it could not be loaded in a separate process: ${found.error}`
    if (!(await content.isCurrent(signal))) return 'its files changed while it was tried'
    triedHere.add(trial.named(key))
    if (folder === null || trouble !== null) return trouble!
    const filled = target !== null && found.files === null ? await this.#lackOfRoom(job) : null
    return filled ?? this.#published(job, folder, found)
  }

  async #lackOfRoom({ cache, content }: Job): Promise<string | null> {
    const lack = await lackOfRoom(cache, content.byteLength)
    if (lack !== null) this.#cannotWrite(new Error(lack))
    return lack
  }

  /** Publishes the result of a trial as an entry. */
  async #published(
    job: Job,
    folder: string,
    { files, reason, notes }: TrialResult,
  ): Promise<Manifest | string> {
    const { cache, key } = job
    const { maxBytes } = this.#options.cache!
    const byteLength = files?.reduce((sum, file) => sum + file.byteLength, 0) ?? 0
    const tooLarge = byteLength > maxBytes
    const why = tooLarge
      ? `its compiled form has ${byteLength} bytes, and cache.maxBytes is ${maxBytes}`
      : (job.obstacle ?? reason)
    const tried = { isFinal: job.obstacle !== null, triedAtMs: Date.now(), wasRun: job.trial.isToRun }
    const manifest: Manifest = {
      key,
      madeFor: job.madeFor,
      files: tooLarge ? null : files,
      reason: why,
      tooLargeBytes: tooLarge ? byteLength : 0,
      ...tried,
    }
    try {
      await publishEntry(cache, folder, manifest)
      await writeSealed(cache.notes(key), notes)
      await evict(cache, maxBytes, key)
      this.#trouble = null
      return (await readEntry(cache, key)) ?? manifest.reason
    } catch (failure) {
      const known = await this.#known(job) // another process was faster, or only a later step failed
      if (known === null) this.#cannotWrite(failure as Error)
      return known ?? (failure as Error).message
    }
  }

  #cannotWrite({ message }: Error): null {
    this.#trouble = `nothing can be written to it: ${message}`
    return null
  }

  #prepared({ cache, key, content }: Job, manifest: Manifest): PreparedModel {
    void touch(cache, key)
    const { files, reason } = manifest
    if (files === null) return asItIs(reason)
    let notes = readSealed<SessionNotes>(cache.notes(key)) ?? {}
    const origin = { compiled: true, reason }
    return {
      origin,
      opening: (model, options) => {
        const used = (failure: string): void => {
          Object.assign(origin, { compiled: false, reason: `its compiled form cannot be opened: ${failure}` })
          void cache.remove(key).catch(() => {}) // the next load makes it again
        }
        return {
          model: graphOf(cache, key),
          options: ofCompiled(options),
          notes,
          original: { model, options, isStillMade: () => isAsRead(cache, manifest), used },
        }
      },
      learnt: (found) => {
        if (Object.keys(found).every((about) => notes[about] === found[about])) return
        notes = { ...notes, ...found }
        if (cache.readOnly !== null) return
        writing = writing.then(() => writeNotes(cache.notes(key), found, content)).catch(() => {})
      },
    }
  }
}

/** Once per model: nothing can be compiled into a read-only cache. */
function warnOfMissing(model: string, { cache, key, obstacle }: Job, why: string): void {
  if (obstacle !== null || warnedOf.has(`${cache.root} ${key}`)) return
  warnedOf.add(`${cache.root} ${key}`)
  warn(
    'ZEROHOP_NOT_COMPILED',
    `Model '${model}' is loaded without its compiled form: ${why}, and nothing is written to ${cache.root} (${cache.readOnly}). \`npx zerohop compile\` on a machine like this one, with the versions and options of this application, fills a cache`,
  )
}

/** Adds notes to a model's earlier ones, if its files are still those that were hashed. */
async function writeNotes(path: string, found: SessionNotes, content: ModelContent): Promise<void> {
  if (!(await content.isCurrent(new AbortController().signal))) return
  await writeSealed(path, { ...readSealed<SessionNotes>(path), ...found })
}
