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
  entryKey,
} from './entry.ts'
import { EntryLock, remove, removeAtExit, Turns } from './entry-lock.ts'
import { evict, sweep, touch, lackOfRoom } from './eviction.ts'
import { contentOf, fileStateOf, type ModelContent, TooManyFiles } from './model-content.ts'
import { ModelTrial, type TrialOptions, type TrialResult } from './model-trial.ts'

/** What is asked of the engine's options. */
export type PreparationOptions = Pick<ResolvedEngineOptions, 'cache' | 'verify'> & TrialOptions

/** A model that is being prepared with a cache. */
interface Job {
  readonly trial: ModelTrial
  readonly content: ModelContent
  readonly key: string
  readonly cache: CacheFolder
  /** Why it has no compiled form, whatever comes; else `null`. */
  readonly obstacle: string | null
  readonly signal: AbortSignal
}

/** A model is tried by one load of the process, and not by all that want it; a process for each core at most, and two at least. */
const turns = new Turns(Math.max(2, availableCores().usable))

/** Notes are written one after the other, whichever load they are of. */
let writing = Promise.resolve()

/** Models that were tried here and of which no cache knows. */
const triedHere = new Set<string>()

/**
 * Finds out what the sessions of models are opened from: their compiled form, where the cache has it. A model that nobody knows is tried, and
 * compiled, in a process of its own first.
 */
export class ModelPreparation {
  readonly #options: PreparationOptions
  #wasAsked = false
  #cache: CacheFolder | null = null
  /** Why the cache is not in use; else `null`. */
  #obstacle: string | null = null
  /** Why it is not written to, when last somebody tried; else `null`. */
  #trouble: string | null = null

  constructor(options: PreparationOptions) {
    this.#options = options
  }

  /** The cache as it is known so far. */
  capability(): Omit<CacheCapability, 'models'> {
    if (this.#options.cache === null)
      return { enabled: false, dir: null, reason: 'switched off by cache: false, or by ZEROHOP_CACHE=off' }
    if (!this.#wasAsked)
      return { enabled: true, dir: this.#options.cache.dir, reason: 'no model has been loaded' }
    const dir = this.#cache?.root ?? this.#options.cache.dir
    const reason = this.#obstacle ?? this.#trouble
    return {
      enabled: reason === null,
      dir,
      reason: reason ?? 'compiled models are read from it and written to it',
    }
  }

  /**
   * Prepares a model that is to be loaded.
   *
   * @param runtimeOf is called only where that has to be known: it may load ONNX Runtime.
   * @throws InferenceError `ERR_MODEL_LOAD` for a model that ends, or holds up, the process in which it is tried; the reason of `signal`.
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
    let content: ModelContent
    try {
      content = await contentOf(config, cache, signal)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof TooManyFiles && verify !== 'none')
        return this.#withoutCache(trial, runtime, config, error.message, signal)
      return asItIs(`its files cannot be read: ${(error as Error).message}`) // which opening it tells in its own words
    }
    const obstacle = whyNotCompiled(config, runtime.onCpuOnly)
    const key = entryKey(content.hash, runtime, config, obstacle)
    const job: Job = { trial, content, key, cache, obstacle, signal }
    const known = await this.#known(job)
    if (known !== null) return this.#prepared(job, known)
    if (verify === 'none')
      return asItIs("the cache does not have it, and verify: 'none' has nothing compiled")
    const made = await turns.take(`${cache.root} ${key}`, signal, () => this.#make(job))
    return typeof made === 'string' ? asItIs(made) : this.#prepared(job, made)
  }

  /** Once for each load: somebody may have removed it, or made room for it, since. */
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
    const key = trial.named(entryKey(state, runtime, config, null))
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

  /** What the cache has of a model; `null` when it is to be tried, again if need be, or could be compiled now. */
  async #known({ trial, cache, key }: Job, canWrite = true): Promise<Manifest | null> {
    const manifest = await readEntry(cache, key)
    if (manifest === null || (this.#options.verify === 'child' && trial.isToRun && !manifest.wasRun))
      return null
    return canWrite && mayBeCompiled(manifest, this.#options.cache!.maxBytes) ? null : manifest
  }

  /** Makes an entry, unless another process just does, or there is no way to; then it says why there is none. */
  async #make(job: Job): Promise<Manifest | string> {
    const { trial, cache, key, content, signal } = job
    let lock: EntryLock | null = null
    let folder: string | null = null
    try {
      lock = await EntryLock.take(cache.lock(key), trial.limitMs(content.byteLength), signal)
    } catch (error) {
      signal.throwIfAborted()
      this.#cannotWrite(error as Error)
    }
    try {
      const known = await this.#known(job, lock !== null) // by now
      if (known !== null) return known
      if (lock !== null) await sweep(cache).catch(() => {}) // it may be what takes the room
      if (lock !== null) folder = await cache.temporary().catch((error: Error) => this.#cannotWrite(error))
      if (folder !== null) removeAtExit(folder)
      return await this.#tried(job, folder)
    } finally {
      if (folder !== null) await remove(folder)
      await lock?.release()
    }
  }

  /** @param folder to write to; `null` where that is not possible, or another process is at it. */
  async #tried(job: Job, folder: string | null): Promise<Manifest | string> {
    const { trial, content, key, signal } = job
    const trouble =
      folder === null
        ? (this.#trouble ?? 'another process has been compiling it for a long time')
        : await this.#lackOfRoom(job)
    if (trouble !== null && triedHere.has(trial.named(key))) return trouble
    const target = job.obstacle === null && trouble === null ? folder : null
    const found = await trial.run(target, content.byteLength, signal)
    if (!found.started) return found.reason
    if (found.error !== null) return `it could not be loaded in a process of its own: ${found.error}`
    if (!(await content.isCurrent(signal))) return 'its files have changed while it was tried'
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

  /** Makes what was found an entry. */
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
      const known = await this.#known(job) // another process was quicker, or only the rest cannot be done
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
          void cache.remove(key).catch(() => {}) // the next load makes it anew
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
        writing = writing.then(() => writeNotes(cache.notes(key), found, content)).catch(() => {})
      },
    }
  }
}

/** Adds notes to those of an entry: of what that was made from, and of nothing that has taken its place since. */
async function writeNotes(path: string, found: SessionNotes, content: ModelContent): Promise<void> {
  if (!(await content.isCurrent(new AbortController().signal))) return
  await writeSealed(path, { ...readSealed<SessionNotes>(path), ...found })
}
