import type { Clock } from '../base/clock.ts'
import { invalidArgument } from '../errors.ts'
import {
  checkFile,
  readTraceSettings,
  withSettings,
  type GivenTraceSettings,
  type ResolvedTraceOptions,
  type ResolvedTraceSettings,
} from '../options/trace-options.ts'
import type { TraceEvent } from './engine-events.ts'
import type { Observers } from './observers.ts'
import type { ObservedModel, RequestFacts, RequestObservation, RequestObserver } from './request-observer.ts'
import { TraceAccount, TraceWriter, type TraceStatistics } from './trace-writer.ts'
import { TracedRequest } from './traced-request.ts'

/** The traces of an engine: an observer while there is anything to trace, which follows one request in so many. */
export class Traces implements RequestObserver {
  readonly #account: TraceAccount
  readonly #observers: Observers
  readonly #clock: Clock
  readonly #samplings: TraceSamplings
  readonly #files: TraceFiles
  #closed = false

  /** @throws InferenceError `ERR_INVALID_ARG` for a file that another engine writes. */
  constructor(
    { settings, models, maxBufferedBytes }: ResolvedTraceOptions,
    observers: Observers,
    clock: Clock,
    tell: (event: TraceEvent) => void,
  ) {
    this.#account = new TraceAccount(maxBufferedBytes, tell)
    this.#observers = observers
    this.#clock = clock
    this.#samplings = new TraceSamplings(settings, models)
    this.#files = new TraceFiles(this.#account)
    for (const { settings: own } of this.#samplings.all) this.#check('options.trace', own)
    this.#apply()
  }

  /** The settings that hold for a model, or for all others with `null`. */
  settings(model: string | null): ResolvedTraceSettings {
    const { settings, left } = this.#samplings.of(model)
    return { ...settings, count: left }
  }

  /** Whether a model has settings of its own. */
  has(model: string): boolean {
    return this.#samplings.has(model)
  }

  /** @throws InferenceError `ERR_INVALID_ARG`; nothing has changed then. */
  update(given: unknown, model: string | null): void {
    const read = readTraceSettings(given)
    this.#samplings.update(read, model, (settings) => this.#check('settings', settings))
    this.#apply()
  }

  statistics(): TraceStatistics {
    return this.#account.statistics()
  }

  /** Resolves when what has been traced is in its file, or lost. */
  flush(): Promise<void> {
    return this.#files.flush()
  }

  /** Traces nothing more, and closes the files. */
  close(): Promise<void> {
    this.#closed = true
    this.#observers.remove(this)
    return this.#files.close()
  }

  begun(model: ObservedModel, facts: RequestFacts): RequestObservation | null {
    const sampling = this.#samplings.of(model.name)
    if (!sampling.takes()) return null
    const { settings } = sampling
    const writer = this.#files.of(settings.file!)
    const tracing = { account: this.#account, clock: this.#clock, settings, writer }
    const trace = TracedRequest.begin(tracing, model, facts)
    if (!sampling.isActive) this.#watch()
    return trace
  }

  #check(name: string, settings: ResolvedTraceSettings): void {
    checkFile(name, settings)
    if (settings.level.length > 0) this.#files.check(name, settings.file!)
  }

  #apply(): void {
    if (this.#closed) return
    this.#files.use(
      new Set(
        this.#samplings.all.flatMap(({ settings: { level, file } }) => (level.length > 0 ? [file!] : [])),
      ),
    )
    this.#watch()
  }

  /** Looks on only while something may be traced. */
  #watch(): void {
    if (this.#samplings.all.some(({ isActive }) => isActive)) this.#observers.add(this)
    else this.#observers.remove(this)
  }
}

/** Which requests are traced by one set of settings: those of the engine, or of a model that has some of its own. */
class TraceSampling {
  settings: ResolvedTraceSettings
  /** How many more are begun; -1 for no limit. */
  left: number
  #seen = 0

  constructor(settings: ResolvedTraceSettings) {
    this.settings = settings
    this.left = settings.count
  }

  /** Whether it may take any request from now on. */
  get isActive(): boolean {
    return this.settings.level.length > 0 && this.left !== 0
  }

  /** Whether this request is one of those that are traced. */
  takes(): boolean {
    if (!this.isActive || ++this.#seen % this.settings.rate !== 0) return false
    if (this.left > 0) this.left--
    return true
  }

  /** @param recounts whether `count` was given anew. */
  become(settings: ResolvedTraceSettings, recounts: boolean): void {
    this.settings = settings
    if (recounts) this.left = settings.count
  }
}

/** The samplings of an engine. A model without settings of its own is counted with all others that have none. */
class TraceSamplings {
  readonly #first: ResolvedTraceSettings
  readonly #engine: TraceSampling
  /** Of models that have some of their own: what they were given, and what comes of it. */
  readonly #models = new Map<
    string,
    { readonly given: GivenTraceSettings; readonly sampling: TraceSampling }
  >()

  constructor(settings: ResolvedTraceSettings, models: ReadonlyMap<string, GivenTraceSettings>) {
    this.#first = settings
    this.#engine = new TraceSampling(settings)
    for (const [name, given] of models)
      this.#models.set(name, { given, sampling: new TraceSampling(withSettings(settings, given)) })
  }

  /** @param model `null` for the engine's. */
  of(model: string | null): TraceSampling {
    return (model === null ? undefined : this.#models.get(model)?.sampling) ?? this.#engine
  }

  has(model: string): boolean {
    return this.#models.has(model)
  }

  get all(): readonly TraceSampling[] {
    return [this.#engine, ...[...this.#models.values()].map(({ sampling }) => sampling)]
  }

  /** @param check throws for settings that must not be; nothing has changed then. */
  update(
    given: GivenTraceSettings,
    model: string | null,
    check: (settings: ResolvedTraceSettings) => void,
  ): void {
    const { engine, models } = this.#with(given, model)
    const ofModels = [...models].map(([name, own]) => [name, own, withSettings(engine, own)] as const)
    for (const settings of [engine, ...ofModels.map(([, , all]) => all)]) check(settings)
    const recounts = given.count !== undefined
    this.#engine.become(engine, recounts && model === null)
    if (model !== null && !models.has(model)) this.#models.delete(model)
    for (const [name, own, settings] of ofModels) {
      const known = this.#models.get(name)?.sampling
      known?.become(settings, recounts && (model === null ? own.count === undefined : model === name))
      this.#models.set(name, { given: own, sampling: known ?? new TraceSampling(settings) })
    }
  }

  /** The engine's settings and those that models have of their own, with these: what is `null` is as at first, or as the engine has it. */
  #with(given: GivenTraceSettings, model: string | null) {
    const models = new Map([...this.#models].map(([name, { given: own }]) => [name, own]))
    const { settings } = this.#engine
    if (model === null) {
      const asAtFirst = Object.entries(given).map(([name, value]) => [
        name,
        value ?? this.#first[name as keyof ResolvedTraceSettings],
      ])
      const engine: ResolvedTraceSettings = { ...settings, ...Object.fromEntries(asAtFirst) }
      return { engine, models }
    }
    const all = Object.entries({ ...models.get(model), ...given }).filter(([, value]) => value !== null)
    if (all.length === 0) models.delete(model)
    else models.set(model, Object.fromEntries(all))
    return { engine: settings, models }
  }
}

/** What this process writes traces to, all its engines together, by path. */
const inUse = new Map<string, TraceWriter>()
let isWatching = false

/** The files that the traces of one engine go to. */
class TraceFiles {
  readonly #account: TraceAccount
  /** Also of files that were left: what is in them stays when they are used again. */
  readonly #writers = new Map<string, TraceWriter>()
  readonly #closing = new Set<Promise<void>>()

  constructor(account: TraceAccount) {
    this.#account = account
  }

  /**
   * @param name of what says so, for errors.
   * @throws InferenceError `ERR_INVALID_ARG` where another engine of this process writes to it.
   */
  check(name: string, path: string): void {
    if (this.#writers.has(path) || !inUse.has(path)) return
    throw invalidArgument(`${name}.file`, 'a file that no other engine of this process writes to', path, {
      hint: 'Choose another file, or close that engine first',
    })
  }

  /** Which files are written from now on, by path. Those of before are closed, and gone on with when they come again. */
  use(paths: ReadonlySet<string>): void {
    for (const [path, writer] of this.#writers) if (!paths.has(path)) this.#leave(writer)
    for (const path of paths) {
      const known = this.#writers.get(path)
      if (known === undefined) this.#begin(path)
      else known.resume()
    }
  }

  of(path: string): TraceWriter {
    return this.#writers.get(path)!
  }

  /** Resolves when all that was traced is in its file, or lost. */
  async flush(): Promise<void> {
    await Promise.all([...this.#closing, ...[...this.#writers.values()].map((writer) => writer.flush())])
  }

  async close(): Promise<void> {
    this.use(new Set())
    await Promise.all(this.#closing)
    for (const [path, writer] of this.#writers) if (inUse.get(path) === writer) inUse.delete(path)
  }

  #begin(path: string): void {
    const writer = new TraceWriter(path, this.#account)
    this.#writers.set(path, writer)
    inUse.set(path, writer)
    if (isWatching) return
    isWatching = true
    process.on('exit', () => {
      for (const each of inUse.values()) each.flushSync()
    })
  }

  #leave(writer: TraceWriter): void {
    const closed = writer.close().finally(() => this.#closing.delete(closed))
    this.#closing.add(closed)
  }
}
