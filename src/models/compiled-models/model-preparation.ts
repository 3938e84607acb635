import { statSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { availableCores } from '../../base/available-resources.ts'
import { warn } from '../../base/warnings.ts'
import type { CacheCapability, ModelOrigin, ResolvedEngineOptions } from '../../options/engine-options.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import type { ModelRuntime, OpenOptions } from '../../options/session-options.ts'
import { untilAborted } from '../../base/abort-watch.ts'
import type { SessionSource } from '../../run/worker-session.ts'
import { CacheFolder, readSealed, writeSealed } from './cache-folder.ts'
import {
  answersAlike,
  graphFile,
  keyOf,
  madeFor,
  ofCompiled,
  warmNote,
  whyNotCompiled,
  type MadeFor,
} from './compiled-form.ts'
import {
  evict,
  isAsRead,
  lackOfRoom,
  mayBeCompiled,
  publishEntry,
  readEntry,
  sealEntry,
  sealFiles,
  sweep,
  touch,
  whyMissing,
  type Manifest,
} from './entry.ts'
import { EntryLock, remove, removeAtExit, startOfSystem, Turns } from './entry-lock.ts'
import {
  contentOf,
  fileStateOf,
  hashOfBytes,
  isToBeHashed,
  TooManyFiles,
  type ModelContent,
} from './model-content.ts'
import { ModelTrial, type CompiledForm, type TrialOptions } from './model-trial.ts'

/** Notes on a session, by subject; see `WorkerSession.note`. */
export type SessionNotes = Readonly<Record<string, string>>

/** A model that is ready for its sessions to be opened. */
export interface PreparedModel {
  readonly origin: ModelOrigin
  /** Size of its compiled form; 0 for none. */
  readonly compiledBytes: number
  /** See {@link answersAlike}; false without a compiled form. */
  answersAlike(): boolean
  /** @param options for a session of the original model. */
  opening(
    model: string | SharedArrayBuffer,
    options: OpenOptions,
  ): Pick<SessionSource, 'model' | 'options' | 'notes' | 'original'>
  /** Called with facts found while it was loaded. */
  learnt(notes: SessionNotes): void
  /** Its model serves: its entry in the cache may be sealed. */
  serves(): void
  /** Its model is closed. Sealing stops, and the next load does it; resolves when it has stopped. */
  close(): Promise<void>
}

/** A model that is opened without compilation. */
export function asItIs(reason: string): PreparedModel {
  return {
    origin: { compiled: false, reason },
    compiledBytes: 0,
    answersAlike: () => false,
    opening: (model, options) => ({ model, options }),
    learnt: () => {},
    serves: () => {},
    close: () => Promise.resolve(),
  }
}

/** The engine options that preparation needs. */
type PreparationOptions = Pick<ResolvedEngineOptions, 'cache' | 'verify'> & TrialOptions

/** A model that is prepared with a cache. */
interface Job {
  readonly trial: ModelTrial
  readonly content: ModelContent
  readonly madeFor: MadeFor
  readonly key: string
  readonly cache: CacheFolder
  readonly signal: AbortSignal
}

/**
 * One load of the process tries a model, on behalf of all that want it. At most one trial per core runs at a time, and
 * at least two; so many more may have begun ahead.
 */
const turns = new Turns(Math.max(2, availableCores().usable))

/** A trial that begins before it is known whether it is needed. */
interface TrialAhead {
  /** Of the load that it is for; other loads of the file wait for that. */
  readonly trial: ModelTrial
  /** Of the model's file before it was tried, and when that was. */
  readonly state: string
  readonly startMs: number
  /** Of its file; `null` without a cache to write to. */
  readonly lock: EntryLock | null
  /** For its compiled form; `null` for none. */
  readonly folder: string | null
  /** Resolves when the load that it is for needs it no more: `end` was called. */
  readonly over: Promise<undefined>
  readonly end: () => void
}

const neverAborted = new AbortController().signal

/** Smaller entries are sealed in some hundredths of a second. */
const sealedAtOnceBytes = 2 ** 25
/** The first requests of a model have the processor for themselves. */
const beforeSealingMs = 1000
/** The rest after each piece. Hashing a piece takes a third of a millisecond. */
const betweenPiecesMs = 1

/** Notes are written one after the other, for all loads. */
let writing = Promise.resolve()

/** Models tried by this process that no cache records. */
const triedHere = new Set<string>()

/** Whether files have the same state after they were published as before; not so in some file systems. */
let statesSettle = true

/** Keys of models that were found missing in a read-only cache. */
const warnedOf = new Set<string>()

/**
 * Decides what a model's sessions are opened from: its compiled form, if the cache has it. An unknown model is first
 * tried in a child process, and compiled there.
 */
export class ModelPreparation {
  readonly #options: PreparationOptions
  /** `null` until a model has been loaded, and while the cache is not used. */
  #cache: CacheFolder | null = null
  /** Why the cache is not used; else `null`. */
  #whyUnused: string | null = null
  /** Why the last attempt to write to it failed; else `null`. */
  #whyUnwritten: string | null = null
  /** By path of the model. */
  readonly #trialsAhead = new Map<string, TrialAhead>()
  /** Entries that are being sealed. */
  readonly #sealing = new Set<Promise<void>>()
  /** Aborted once someone waits for all entries to be sealed: sealing then takes no rests. */
  #sealInHaste = new AbortController()

  constructor(options: PreparationOptions) {
    this.#options = options
  }

  /** The state of the cache so far. */
  capability(): Omit<CacheCapability, 'models'> {
    if (this.#options.cache === null)
      return { enabled: false, dir: null, reason: 'turned off by cache: false, or by ZEROHOP_CACHE=off' }
    if (this.#cache === null && this.#whyUnused === null)
      return { enabled: true, dir: this.#options.cache.dir, reason: 'no model has been loaded' }
    const dir = this.#cache?.root ?? this.#options.cache.dir
    const reason = this.#whyUnused ?? this.#whyUnwritten
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
  startTrial(model: string, config: ResolvedConfig, runtime: ModelRuntime): void {
    if (this.#options.verify === 'none' || config.bytes !== null) return
    const cache = this.#open()
    if (cache !== null && cache.readOnly !== null) return // it keeps no hashes of files: the model may well be in it
    const { path } = config
    const trial = new ModelTrial(model, config, runtime, this.#options)
    const [state, startMs] = [fileStateOf(path), Date.now()]
    const { size } = statSync(path)
    if (this.#trialsAhead.has(path)) return
    let lock: EntryLock | null = null
    let folder: string | null = null
    if (cache === null) {
      if (triedHere.has(keyWithoutCache(trial, state))) return
    } else {
      const lockPath = lockOfFile(cache, path)
      if (!isToBeHashed(path, cache)) return void EntryLock.removeDead(lockPath)
      lock = EntryLock.takeNow(lockPath)
      if (lock === null) return
      if (whyNotCompiled(config, runtime.onCpuOnly) === null) {
        folder = cache.temporaryNow(size)
        if (folder === null) return void lock.release() // there may be room once others' unfinished work is gone
        removeAtExit(folder)
      }
    }
    trial.startProcess(folder)
    let end = (): void => {}
    const over = new Promise<undefined>((resolve) => (end = () => resolve(undefined)))
    this.#trialsAhead.set(path, { trial, state, startMs, lock, folder, over, end })
  }

  /** Whether {@link startTrial} has begun for this load. */
  triesAhead(config: ResolvedConfig): boolean {
    return this.#trialsAhead.get(config.path)?.trial.config === config
  }

  endAhead(config: ResolvedConfig): void {
    if (!this.triesAhead(config)) return
    const ahead = this.#trialsAhead.get(config.path)!
    this.#trialsAhead.delete(config.path)
    void drop(ahead)
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
    const cache = this.#open()
    if (cache === null && this.#options.verify === 'none') return asItIs(this.capability().reason)
    let ahead = this.#trialsAhead.get(config.path)
    if (ahead !== undefined && ahead.trial.config !== config) ahead = await untilAborted(ahead.over, signal)
    try {
      const wanted = new ModelTrial(model, config, runtimeOf(), this.#options)
      return await this.#prepare(wanted, cache, ahead, signal)
    } finally {
      this.endAhead(config)
    }
  }

  async #prepare(
    wanted: ModelTrial,
    cache: CacheFolder | null,
    ahead: TrialAhead | undefined,
    signal: AbortSignal,
  ): Promise<PreparedModel> {
    const { verify } = this.#options
    // Since it began, an execution provider may have turned out to be absent, or the file may have been replaced.
    const isForRuntime = isDeepStrictEqual(ahead?.trial.runtime, wanted.runtime)
    if (!isForRuntime || (cache === null && ahead!.state !== fileStateOf(wanted.config.path)))
      await drop(ahead)
    const trial = isForRuntime ? ahead!.trial : wanted
    if (cache === null) return this.#withoutCache(trial, this.capability().reason, signal)
    let job: Job
    try {
      job = await jobFor(cache, trial, signal)
    } catch (error) {
      signal.throwIfAborted()
      await drop(ahead)
      if (error instanceof TooManyFiles && verify !== 'none')
        return this.#withoutCache(trial, error.message, signal)
      return asItIs(`its files cannot be read: ${(error as Error).message}`) // opening it reports the error in detail
    }
    const isOfContent = ahead !== undefined && job.content.wasInState(ahead.state, ahead.startMs)
    const folder = isForRuntime && isOfContent ? ahead.folder : null
    if (!isOfContent) await drop(ahead)
    const known = await this.#manifestOf(job, cache.readOnly === null)
    if (known !== null) return this.#modelOf(job, known)
    const why = cache.readOnly === null && verify === 'child' ? null : await whyMissing(cache, job.madeFor)
    if (why !== null && cache.readOnly !== null) warnOfMissing(job, why)
    if (verify === 'none') return asItIs(`${why}, and with verify: 'none' nothing is compiled`)
    const lock = (ahead?.lock ?? null) === null ? await lockFile(job) : null
    try {
      const made = await turns.take(`${cache.root} ${job.key}`, signal, () => this.#make(job, folder))
      return why === null || made.origin.compiled ? made : asItIs(`${why}; ${made.origin.reason}`)
    } finally {
      await lock?.release()
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
    const cache = this.#open()
    if (cache === null) return this.capability().reason
    const job = await jobFor(cache, new ModelTrial(model, config, runtime, this.#options), signal)
    return (await this.#manifestOf(job, false)) ?? (await whyMissing(cache, job.madeFor))
  }

  /** Resolves when the entries of all models loaded so far are sealed, or that is given up. From now on sealing takes no rests. */
  async sealed(): Promise<void> {
    const sealing = [...this.#sealing]
    this.#sealInHaste.abort()
    this.#sealInHaste = new AbortController()
    await Promise.all(sealing)
  }

  /** Once per load: the folder may have been removed, or become usable, since. */
  #open(): CacheFolder | null {
    if (this.#options.cache === null) return null
    try {
      this.#cache = CacheFolder.open(this.#options.cache.dir)
      this.#whyUnused = null
    } catch (error) {
      this.#cache = null
      this.#whyUnused = `it cannot be used: ${(error as Error).message}`
    }
    return this.#cache
  }

  async #withoutCache(trial: ModelTrial, why: string, signal: AbortSignal): Promise<PreparedModel> {
    const { path, bytes } = trial.config
    const state = bytes === null ? fileStateOf(path) : await hashOfBytes(new Uint8Array(bytes), signal)
    const key = keyWithoutCache(trial, state)
    await turns.take(key, signal, async () => {
      if (triedHere.has(key)) return
      const byteLength = bytes?.byteLength ?? (await stat(path).catch(() => null))?.size ?? 0
      const tried = await trial.run(null, byteLength, signal)
      if (tried.kind === 'tried' && tried.error === null) triedHere.add(key)
    })
    return asItIs(why)
  }

  /** The cache's record of a model; `null` if the model should be tried (again), or can be compiled now. */
  async #manifestOf({ trial, cache, key }: Job, canWrite = true): Promise<Manifest | null> {
    const manifest = await readEntry(cache, key)
    if (manifest === null || (this.#options.verify === 'child' && trial.isToRun && !manifest.wasRun))
      return null
    return canWrite && mayBeCompiled(manifest, this.#options.cache!.maxBytes) ? null : manifest
  }

  /**
   * Tries a model, and makes an entry of it, unless another process has.
   *
   * @param begun folder of a trial that was begun ahead; `null` for none.
   */
  async #make(job: Job, begun: string | null): Promise<PreparedModel> {
    const { trial, cache, key, content, signal } = job
    const { obstacle } = job.madeFor
    const there = await this.#manifestOf(job, cache.readOnly === null) // made meanwhile, it may be about to be sealed
    if (there !== null) return this.#modelOf(job, there)
    let lock: EntryLock | null = null
    try {
      if (cache.readOnly !== null) this.#cannotWrite(cache.readOnly)
      else lock = await EntryLock.take(cache.lock(key), trial.limitMs(content.byteLength), signal)
    } catch (error) {
      signal.throwIfAborted()
      this.#cannotWrite((error as Error).message)
    }
    let folder: string | null = null
    try {
      const known = await this.#manifestOf(job, lock !== null) // another process may have made it
      if (known !== null) return this.#modelOf(job, known)
      const sweeping = lock === null ? null : sweep(cache).catch(() => {})
      if (begun === null) await sweeping // unfinished work may take the space
      let lack: string | null = null
      if (lock === null) lack = this.#whyUnwritten ?? 'another process has been compiling it for too long'
      else if (begun === null) lack = await this.#lackOfRoom(job)
      if (lack !== null && triedHere.has(trial.named(key))) return asItIs(lack)
      if (lack === null)
        folder = begun ?? (await cache.temporary().catch((error: Error) => this.#cannotWrite(error.message)))
      if (folder !== null) removeAtExit(folder)
      const form = await this.#formFromTrial(job, obstacle === null ? folder : null)
      if (typeof form === 'string') return asItIs(form)
      if (folder === null) return asItIs(lack ?? this.#whyUnwritten!)
      const later = form?.files === null ? await this.#lackOfRoom(job) : null
      if (later !== null) return asItIs(later)
      const reason = await this.#publish(
        job,
        folder,
        form ?? { files: null, reason: obstacle!, wasRun: false },
      )
      const made = await this.#manifestOf(job, false)
      if (made !== null) return this.#modelOf(job, made, true)
      if (this.#whyUnwritten !== null) return asItIs(reason)
      statesSettle = false
      return asItIs('the states of its compiled files have changed since they were written')
    } finally {
      if (folder !== null) await remove(folder)
      await lock?.release()
    }
  }

  /**
   * Tries a model in a child process.
   *
   * @param folder for its compiled form; `null` for none.
   * @returns that form; or why the model was not tried.
   */
  async #formFromTrial(
    { trial, content, key, signal }: Job,
    folder: string | null,
  ): Promise<CompiledForm | null | string> {
    const tried = await trial.run(folder, content.byteLength, signal)
    if (tried.kind === 'not started') return tried.reason
    if (tried.error !== null) return `it could not be loaded in a separate process: ${tried.error}`
    if (!(await content.isCurrent(signal))) return 'its files changed while it was tried'
    triedHere.add(trial.named(key))
    return tried.form
  }

  async #lackOfRoom({ cache, content }: Job): Promise<string | null> {
    const lack = await lackOfRoom(cache, content.byteLength)
    if (lack !== null) this.#cannotWrite(lack)
    return lack
  }

  /** Publishes a compiled form, or why there is none, as an entry. Returns the reason. */
  async #publish(job: Job, folder: string, { files, reason, wasRun }: CompiledForm): Promise<string> {
    const { cache, key } = job
    const { maxBytes } = this.#options.cache!
    const byteLength = files?.reduce((sum, file) => sum + file.byteLength, 0) ?? 0
    const tooLarge = byteLength > maxBytes
    const why = tooLarge
      ? `its compiled form has ${byteLength} bytes, and cache.maxBytes is ${maxBytes}`
      : (job.madeFor.obstacle ?? reason)
    const kept = tooLarge ? null : files
    const unsealedIn = kept === null || !statesSettle ? null : startOfSystem()
    const manifest = {
      key,
      madeFor: job.madeFor,
      reason: why,
      tooLargeBytes: tooLarge ? byteLength : 0,
      isFinal: job.madeFor.obstacle !== null,
      triedAtMs: Date.now(),
      wasRun: job.trial.isToRun,
      unsealedIn,
    }
    try {
      const isToSeal = kept !== null && unsealedIn === null
      const last = isToSeal ? await sealFiles(folder, kept, job.signal) : kept
      await publishEntry(cache, folder, { ...manifest, files: last })
      await evict(cache, maxBytes, key)
      // As after the first run of a session that an application has opened.
      if (wasRun) await addNotes(cache.notes(key), { [warmNote]: 'yes' }, job.content)
      this.#whyUnwritten = null
      return manifest.reason
    } catch (failure) {
      const known = await this.#manifestOf(job) // another process was faster, or only a later step failed
      if (known === null) this.#cannotWrite((failure as Error).message)
      return known?.reason ?? (failure as Error).message
    }
  }

  #cannotWrite(reason: string): null {
    this.#whyUnwritten = `nothing can be written to it: ${reason}`
    return null
  }

  /**
   * A model that the cache knows.
   *
   * @param isNew whether it was made just now, for which its application has waited long enough: sealing a large one rests.
   */
  #modelOf(job: Job, manifest: Manifest, isNew = false): PreparedModel {
    const { cache, key } = job
    void touch(cache, key)
    const { files, reason } = manifest
    if (files === null) return asItIs(reason)
    const compiledBytes = files.reduce((sum, { byteLength }) => sum + byteLength, 0)
    const notes = readSealed<SessionNotes>(cache.notes(key)) ?? {}
    const origin = { compiled: true, reason }
    const stopped = new AbortController()
    let sealing: Promise<void> | null = null
    return {
      origin,
      compiledBytes,
      answersAlike: () => answersAlike(join(cache.entry(key), graphFile)),
      serves: () =>
        void (sealing ??= this.#seal(
          job,
          manifest,
          stopped.signal,
          isNew && compiledBytes > sealedAtOnceBytes,
        )),
      close: () => (stopped.abort(), sealing ?? Promise.resolve()),
      opening: (model, options) => {
        const used = (failure: string): void => {
          Object.assign(origin, { compiled: false, reason: `its compiled form cannot be opened: ${failure}` })
          void cache.remove(key).catch(() => {}) // the next load makes it again
        }
        return {
          model: join(cache.entry(key), graphFile),
          options: ofCompiled(options),
          notes,
          original: { model, options, isStillMade: () => isAsRead(cache, manifest), used },
        }
      },
      learnt: learning(job, notes),
    }
  }

  /** Seals an entry that was made since the system was started, beside serving. */
  #seal(job: Job, { unsealedIn }: Manifest, signal: AbortSignal, rests: boolean): Promise<void> {
    const isToBe = unsealedIn !== null && job.cache.readOnly === null && this.#options.verify === 'child'
    if (!isToBe || signal.aborted) return Promise.resolve()
    const sealing = this.#sealInTurn(job, signal, rests)
      .catch(() => {}) // the next load does
      .finally(() => this.#sealing.delete(sealing))
    this.#sealing.add(sealing)
    return sealing
  }

  async #sealInTurn({ cache, key, trial, content }: Job, signal: AbortSignal, rests: boolean): Promise<void> {
    const woken = AbortSignal.any([signal, this.#sealInHaste.signal])
    const rest = async (ms: number): Promise<void> => {
      if (rests) await sleep(ms, undefined, { signal: woken, ref: false }).catch(() => {})
    }
    await rest(beforeSealingMs)
    signal.throwIfAborted()
    const lock = await EntryLock.take(cache.lock(key), trial.limitMs(content.byteLength), signal)
    try {
      const manifest = lock === null ? null : await readEntry(cache, key)
      if (manifest !== null && manifest.unsealedIn !== null)
        await sealEntry(cache, manifest, signal, () => rest(betweenPiecesMs))
    } finally {
      await lock?.release()
    }
  }
}

/** Ends a trial, unless it is in use, and removes what was not published of it. */
async function drop(ahead: TrialAhead | undefined): Promise<void> {
  await ahead?.trial.discard()
  if (ahead?.folder) await remove(ahead.folder)
}

function lockOfFile(cache: CacheFolder, path: string): string {
  return cache.lock(basename(cache.known(path)))
}

/** One process at a time tries a file: it may have begun before it knew which model that is. */
async function lockFile({ cache, content, trial, signal }: Job): Promise<EntryLock | null> {
  const { path, bytes } = trial.config
  if (cache.readOnly !== null || bytes !== null) return null
  try {
    return await EntryLock.take(lockOfFile(cache, path), trial.limitMs(content.byteLength), signal)
  } catch {
    signal.throwIfAborted()
    return null // nothing can be written there
  }
}

async function jobFor(cache: CacheFolder, trial: ModelTrial, signal: AbortSignal): Promise<Job> {
  const { config, runtime } = trial
  const content = await contentOf(config, cache, signal)
  const made = madeFor(content.hash, runtime, config, whyNotCompiled(config, runtime.onCpuOnly))
  return { trial, content, madeFor: made, key: keyOf(made), cache, signal }
}

/** @param state of its file, or the hash of its bytes. */
function keyWithoutCache(trial: ModelTrial, state: string): string {
  const { config, runtime } = trial
  return trial.named(keyOf(madeFor(`${config.path} ${state}`, runtime, config, null)))
}

/** Once per model: nothing can be compiled into a read-only cache. */
function warnOfMissing({ trial, cache, key, madeFor: { obstacle } }: Job, why: string): void {
  if (obstacle !== null || warnedOf.has(`${cache.root} ${key}`)) return
  warnedOf.add(`${cache.root} ${key}`)
  warn(
    'ZEROHOP_NOT_COMPILED',
    `Model '${trial.model}' is loaded without its compiled form: ${why}, and nothing is written to ${cache.root} (${cache.readOnly}). \`npx zerohop compile\` on a machine like this one, with the versions and options of this application, fills a cache`,
  )
}

/** Writes what is found about a model to its notes, unless they had it. */
function learning({ cache, key, content }: Job, known: SessionNotes): (found: SessionNotes) => void {
  let notes = known
  return (found) => {
    if (cache.readOnly !== null || Object.keys(found).every((about) => notes[about] === found[about])) return
    notes = { ...notes, ...found }
    void addNotes(cache.notes(key), found, content)
  }
}

/** Adds notes to a model's earlier ones, after all that were added before; resolves even if they cannot be written. */
function addNotes(path: string, found: SessionNotes, content: ModelContent): Promise<void> {
  return (writing = writing.then(() => writeNotes(path, found, content)).catch(() => {}))
}

/** Adds notes to a model's earlier ones, if its files are still those that were hashed. */
async function writeNotes(path: string, found: SessionNotes, content: ModelContent): Promise<void> {
  if (!(await content.isCurrent(neverAborted))) return
  await writeSealed(path, { ...readSealed<SessionNotes>(path), ...found })
}
