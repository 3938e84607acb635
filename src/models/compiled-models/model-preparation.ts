import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
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
import { contentOf, fileStateOf, isToBeHashed, type ModelContent, TooManyFiles } from './model-content.ts'
import { ModelTrial, type CompiledForm, type TrialOptions } from './model-trial.ts'
import { warn } from '../../base/warnings.ts'
import { untilAborted } from '../../request/abort-watch.ts'

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

/** An entry that is being made. */
interface Work {
  readonly lock: EntryLock
  readonly folder: string
  readonly form: Promise<CompiledForm | string>
}

/** A trial that begins before it is known whether it is needed. */
interface TrialAhead {
  readonly trial: ModelTrial
  /** Of the load that it is for; other loads of the file wait for that. */
  readonly config: ResolvedConfig
  /** Of the model's file before it was tried, and when that was. */
  readonly state: string
  readonly startMs: number
  /** Of its file; `null` without a cache to write to. */
  readonly lock: EntryLock | null
  readonly over: Promise<undefined>
  readonly end: () => void
}

/** A model that is compiled beside serving, for all that are loaded of it. */
interface Compilation {
  /** Resolves with what came of it, in words. */
  readonly done: Promise<string>
  readonly compiling: AbortController
  /** Called when one of them serves: not before may it begin, as it would make that later. */
  readonly begin: () => void
  /** Loads that it is for; the last one that closes ends it. */
  users: number
}

const neverAborted = new AbortController().signal

/** Notes are written one after the other, for all loads. */
let writing = Promise.resolve()

/** Models tried by this process that no cache records. */
const triedHere = new Set<string>()

/** Keys of models that were found missing in a read-only cache. */
const warnedOf = new Set<string>()

/** Models that this process compiles beside serving them, by cache and key. */
const compiledHere = new Map<string, Compilation>()
const beingCompiled = 'it is being compiled, for later loads'

/**
 * Decides what a model's sessions are opened from: its compiled form, if the cache has it. An unknown model is first
 * tried in a child process, and compiled there for later loads while it serves.
 */
export class ModelPreparation {
  readonly #options: PreparationOptions
  #wasAsked = false
  #cache: CacheFolder | null = null
  /** Why the cache is not used; else `null`. */
  #obstacle: string | null = null
  /** Why the last attempt to write to it failed; else `null`. */
  #trouble: string | null = null
  /** By path. */
  readonly #ahead = new Map<string, TrialAhead>()
  /** What is compiled for later loads. */
  readonly #compiling = new Set<Promise<void>>()

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
   * Begins to try a model whose file was not seen before, while other parts of its load begin and before its hash can tell
   * whether it is known, unless another load or process does. {@link endAhead} ends what is not used.
   */
  startAhead(model: string, config: ResolvedConfig, runtime: ModelRuntime): void {
    const { cache: asked, verify } = this.#options
    if (verify === 'none' || config.bytes !== null) return
    const cache = asked === null ? null : this.#open(asked.dir)
    const { path } = config
    const trial = new ModelTrial(model, config, runtime, this.#options)
    const [state, startMs] = [fileStateOf(path), Date.now()]
    if (this.#ahead.has(path)) return
    let lock: EntryLock | null = null
    if (cache === null) {
      if (triedHere.has(keyWithoutCache(trial, runtime, config, state))) return
    } else {
      const lockPath = lockOfFile(cache, path)
      if (!isToBeHashed(path, cache)) return void EntryLock.removeDead(lockPath)
      if (cache.readOnly === null) lock = EntryLock.takeNow(lockPath)
      if (cache.readOnly === null && lock === null) return
    }
    trial.startAhead(cache !== null && whyNotCompiled(config, runtime.onCpuOnly) === null)
    let end = (): void => {}
    const over = new Promise<undefined>((resolve) => (end = () => resolve(undefined)))
    this.#ahead.set(path, { trial, config, state, startMs, lock, over, end })
  }

  endAhead(config: ResolvedConfig): void {
    const ahead = this.#ahead.get(config.path)
    if (ahead?.config !== config) return
    this.#ahead.delete(config.path)
    ahead.trial.discard()
    void ahead.lock?.release()
    ahead.end()
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
    let ahead = this.#ahead.get(config.path)
    if (ahead !== undefined && ahead.config !== config) ahead = await untilAborted(ahead.over, signal)
    try {
      return await this.#prepare(model, config, cache, runtimeOf(), ahead, signal)
    } finally {
      this.endAhead(config)
    }
  }

  async #prepare(
    model: string,
    config: ResolvedConfig,
    cache: CacheFolder | null,
    runtime: ModelRuntime,
    ahead: TrialAhead | undefined,
    signal: AbortSignal,
  ): Promise<PreparedModel> {
    const { verify } = this.#options
    const trial = ahead?.trial ?? new ModelTrial(model, config, runtime, this.#options)
    if (cache === null && ahead?.state !== fileStateOf(config.path)) trial.discard() // it may have tried an earlier file
    if (cache === null) return this.#withoutCache(trial, runtime, config, this.capability().reason, signal)
    let job: Job
    try {
      job = await this.#jobFor(cache, trial, config, runtime, signal)
    } catch (error) {
      signal.throwIfAborted()
      trial.discard()
      if (error instanceof TooManyFiles && verify !== 'none')
        return this.#withoutCache(trial, runtime, config, error.message, signal)
      return asItIs(`its files cannot be read: ${(error as Error).message}`) // opening it reports the error in detail
    }
    if (ahead !== undefined && !job.content.wasInState(ahead.state, ahead.startMs)) trial.discard()
    const known = await this.#known(job, cache.readOnly === null)
    if (known !== null) return this.#prepared(job, known)
    const why = cache.readOnly === null && verify === 'child' ? null : await whyMissing(cache, job.madeFor)
    if (why !== null && cache.readOnly !== null) warnOfMissing(model, job, why)
    if (verify === 'none') return asItIs(`${why}, and with verify: 'none' nothing is compiled`)
    const lock = (ahead?.lock ?? null) === null ? await this.#lockOfFile(job, config, signal) : null
    try {
      const made = await turns.take(`${cache.root} ${job.key}`, signal, () => this.#make(job))
      return why === null || made.origin.compiled ? made : asItIs(`${why}; ${made.origin.reason}`)
    } finally {
      await lock?.release()
    }
  }

  /** One process at a time tries a file: it may have begun before it knew which model that is. */
  async #lockOfFile(
    { cache, content, trial }: Job,
    config: ResolvedConfig,
    signal: AbortSignal,
  ): Promise<EntryLock | null> {
    if (cache.readOnly !== null || config.bytes !== null) return null
    try {
      return await EntryLock.take(lockOfFile(cache, config.path), trial.limitMs(content.byteLength), signal)
    } catch {
      signal.throwIfAborted()
      return null // nothing can be written there
    }
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

  /** Resolves when the compiled forms of all models loaded so far are made, or given up. */
  async compiled(): Promise<void> {
    await Promise.all(this.#compiling)
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
    const state = bytes === null ? fileStateOf(path) : await hashOfBytes(new Uint8Array(bytes), signal)
    const key = keyWithoutCache(trial, runtime, config, state)
    await turns.take(key, signal, async () => {
      if (triedHere.has(key)) return
      const byteLength = bytes?.byteLength ?? (await stat(path).catch(() => null))?.size ?? 0
      const tried = await trial.run(null, byteLength, signal, signal)
      if (tried.kind === 'tried' && tried.error === null) triedHere.add(key)
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

  /** Tries a model, and has an entry made of it unless another process does. */
  async #make(job: Job): Promise<PreparedModel> {
    const { trial, cache, key, content, signal } = job
    const isTried = triedHere.has(trial.named(key))
    const running = compiledHere.get(`${cache.root} ${key}`)
    if (running !== undefined) {
      const tried = isTried ? null : await this.#tried(job, null)
      return typeof tried === 'string' ? asItIs(tried) : this.#served(job, running)
    }
    let lock: EntryLock | null = null
    let isTriedElsewhere = false
    try {
      if (cache.readOnly !== null) this.#cannotWrite(new Error(cache.readOnly))
      else
        lock = await EntryLock.take(cache.lock(key), trial.limitMs(content.byteLength), signal, {
          isEnough: (word) => (isTriedElsewhere = word === 'run' || (word === 'loaded' && !trial.isToRun)),
        })
    } catch (error) {
      signal.throwIfAborted()
      this.#cannotWrite(error as Error)
    }
    if (isTriedElsewhere) {
      const made = await this.#known(job, false)
      return made === null ? asItIs(`${beingCompiled}, by another process`) : this.#prepared(job, made)
    }
    let work: Work | null = null
    let folder: string | null = null
    const compiling = new AbortController()
    let begin = (): void => {}
    const mayBegin = new Promise<void>((resolve) => (begin = resolve))
    try {
      const known = await this.#known(job, lock !== null) // another process may have made it
      if (known !== null) return this.#prepared(job, known)
      if (lock !== null) await sweep(cache).catch(() => {}) // unfinished work may take the space
      if (lock !== null) folder = await cache.temporary().catch((error: Error) => this.#cannotWrite(error))
      if (folder !== null) removeAtExit(folder)
      const lack =
        folder === null
          ? (this.#trouble ?? 'another process has been compiling it for too long')
          : await this.#lackOfRoom(job)
      if (lack !== null && isTried) return asItIs(lack)
      const into = lack === null && job.obstacle === null ? folder : null
      const tried = await this.#tried(job, into, compiling, mayBegin)
      if (typeof tried === 'string') return asItIs(tried)
      if (lack !== null) return asItIs(lack)
      if (tried.form === null)
        return asItIs(await this.#published(job, folder!, { files: null, reason: job.obstacle! }))
      work = { lock: lock!, folder: folder!, form: tried.form }
      const compilation: Compilation = {
        done: this.#compile(job, work, compiling.signal),
        compiling,
        begin,
        users: 0,
      }
      compiledHere.set(`${cache.root} ${key}`, compilation)
      return this.#served(job, compilation)
    } finally {
      if (work === null) {
        if (folder !== null) await remove(folder)
        await lock?.release()
      }
    }
  }

  /**
   * Tries a model in a child process.
   *
   * @param folder to compile it into from then on; `null` if that is not possible, or another process does it.
   * @param compiling is aborted when its compiled form is not wanted any more.
   * @param mayBegin resolves when it may be compiled.
   * @returns its compiled form, once that is made, `null` without one; or why it was not tried.
   */
  async #tried(
    { trial, content, key, signal }: Job,
    folder: string | null,
    compiling = new AbortController(),
    mayBegin = Promise.resolve(),
  ): Promise<{ readonly form: Promise<CompiledForm | string> | null } | string> {
    const tried = await trial.run(folder, content.byteLength, signal, compiling.signal, mayBegin)
    if (tried.kind === 'not started') return tried.reason
    if (tried.error !== null) return `it could not be loaded in a separate process: ${tried.error}`
    let isCurrent = false
    try {
      isCurrent = await content.isCurrent(signal)
    } finally {
      if (!isCurrent) compiling.abort()
      if (!isCurrent) await tried.compiled
    }
    if (!isCurrent) return 'its files changed while it was tried'
    triedHere.add(trial.named(key))
    return { form: tried.compiled }
  }

  /** Publishes what a child process compiles while the model serves. Returns what came of it, in words. */
  async #compile(job: Job, { lock, folder, form }: Work, signal: AbortSignal): Promise<string> {
    const { trial, cache, key, content } = job
    try {
      await lock.tell(trial.isToRun ? 'run' : 'loaded')
      const made = await form
      if (typeof made === 'string') return made
      if (!(await content.isCurrent(signal))) return 'its files changed while it was compiled'
      const lack = made.files === null ? await this.#lackOfRoom(job) : null
      const reason = lack ?? (await this.#published(job, folder, made))
      return made.files !== null && reason === made.reason ? `for later loads it is ${reason}` : reason
    } catch (error) {
      return (error as Error).message
    } finally {
      compiledHere.delete(`${cache.root} ${key}`)
      await remove(folder)
      await lock.release()
    }
  }

  async #lackOfRoom({ cache, content }: Job): Promise<string | null> {
    const lack = await lackOfRoom(cache, content.byteLength)
    if (lack !== null) this.#cannotWrite(new Error(lack))
    return lack
  }

  /** Publishes a compiled form, or why there is none, as an entry. Returns the reason. */
  async #published(job: Job, folder: string, { files, reason }: CompiledForm): Promise<string> {
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
      await evict(cache, maxBytes, key)
      this.#trouble = null
      return manifest.reason
    } catch (failure) {
      const known = await this.#known(job) // another process was faster, or only a later step failed
      if (known === null) this.#cannotWrite(failure as Error)
      return known?.reason ?? (failure as Error).message
    }
  }

  #cannotWrite({ message }: Error): null {
    this.#trouble = `nothing can be written to it: ${message}`
    return null
  }

  /** A model that the cache knows. */
  #prepared(job: Job, manifest: Manifest): PreparedModel {
    const { cache, key } = job
    void touch(cache, key)
    const { files, reason } = manifest
    if (files === null) return asItIs(reason)
    const notes = readSealed<SessionNotes>(cache.notes(key)) ?? {}
    const origin = { compiled: true, reason }
    return {
      ...asItIs(reason),
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
      learnt: learning(job, notes),
    }
  }

  /** A model that is compiled while it serves as it is. */
  #served(job: Job, compilation: Compilation): PreparedModel {
    const origin = { compiled: false, reason: beingCompiled }
    const done = compilation.done.then((reason) => void (origin.reason = reason))
    this.#compiling.add(done)
    void done.then(() => this.#compiling.delete(done))
    compilation.users++
    let isOpen = true
    return {
      ...asItIs(''),
      origin,
      learnt: learning(job, {}),
      serves: compilation.begin,
      close: async () => {
        if (isOpen) compilation.users--
        isOpen = false
        if (compilation.users > 0) return
        compilation.compiling.abort()
        await done
      },
    }
  }
}

function lockOfFile(cache: CacheFolder, path: string): string {
  return cache.lock(basename(cache.known(path)))
}

/** @param state of its file, or the hash of its bytes. */
function keyWithoutCache(
  trial: ModelTrial,
  runtime: ModelRuntime,
  config: ResolvedConfig,
  state: string,
): string {
  return trial.named(keyOf(madeFor(`${config.path} ${state}`, runtime, config, null)))
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

/** Writes what is found about a model to its notes, unless they had it. */
function learning({ cache, key, content }: Job, known: SessionNotes): (found: SessionNotes) => void {
  let notes = known
  return (found) => {
    if (cache.readOnly !== null || Object.keys(found).every((about) => notes[about] === found[about])) return
    notes = { ...notes, ...found }
    writing = writing.then(() => writeNotes(cache.notes(key), found, content)).catch(() => {})
  }
}

/** Adds notes to a model's earlier ones, if its files are still those that were hashed. */
async function writeNotes(path: string, found: SessionNotes, content: ModelContent): Promise<void> {
  if (!(await content.isCurrent(neverAborted))) return
  await writeSealed(path, { ...readSealed<SessionNotes>(path), ...found })
}
