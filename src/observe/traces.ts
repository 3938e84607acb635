import {
  checkFile,
  readTraceSettings,
  type ResolvedTraceOptions,
  type ResolvedTraceSettings,
} from '../options/trace-options.ts'
import type { Clock } from '../base/clock.ts'
import type { TraceEvent } from './engine-events.ts'
import type { Observers } from './observers.ts'
import type { ObservedModel, RequestFacts, RequestObservation, RequestObserver } from './request-observer.ts'
import { TraceAccount, type TraceStatistics } from './trace-account.ts'
import { TraceFiles } from './trace-files.ts'
import { TraceSamplings } from './trace-sampling.ts'
import { TracedRequest, type TraceSource } from './traced-request.ts'

/** Of all traces of this process. */
let lastId = 0

/** The traces of an engine: looks on while there is anything to be traced, and takes each how-manieth request. */
export class Traces implements RequestObserver, TraceSource {
  readonly account: TraceAccount
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
    this.account = new TraceAccount(maxBufferedBytes, tell)
    this.#observers = observers
    this.#clock = clock
    this.#samplings = new TraceSamplings(settings, models)
    this.#files = new TraceFiles(this.account)
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
    for (const settings of this.#samplings.preview(read, model)) this.#check('settings', settings)
    this.#samplings.update(read, model)
    this.#apply()
  }

  statistics(): TraceStatistics {
    return this.account.statistics()
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

  // ── for the engine's requests ──
  begun(model: ObservedModel, facts: RequestFacts): RequestObservation | null {
    const sampling = this.#samplings.of(model.name)
    if (!sampling.takes()) return null
    const { settings } = sampling
    const trace = TracedRequest.begin(this, model, facts, settings, this.#files.of(settings.file!))
    if (!sampling.isActive) this.#watch()
    return trace
  }

  batchBegan(): void {}

  batchEnded(): void {}

  nextId(): number {
    return ++lastId
  }

  nowMs(): number {
    return this.#clock.nowMs()
  }

  #check(name: string, settings: ResolvedTraceSettings): void {
    checkFile(name, settings)
    if (settings.level.length > 0) this.#files.check(name, settings.file)
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
