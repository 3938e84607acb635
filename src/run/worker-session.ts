import type { Clock } from '../base/clock.ts'
import {
  ThreadEndedError,
  type Arena,
  type Executor,
  type OpenedSession,
  type OpeningAhead,
  type SampleRun,
} from './executors/executor.ts'
import type { RowProof, RowQuestion } from '../onnx/row-proof/prove-rows.ts'
import type { MailedValue } from '../tensor/values.ts'
import { ArenaKeeper } from './arena-keeper.ts'
import type { BatchSource } from './batch-source.ts'
import { within } from './sample-limit.ts'
import { checkSame, openFrom, type SessionSource } from './session-source.ts'
import { fileOf, type SessionState } from './session-state.ts'
import type { WorkerResident } from './worker-resident.ts'
import type { Worker } from './worker.ts'

/** What becomes of a session whose thread died; see {@link WorkerSession.serve}. */
export interface SessionEvents {
  /** It is open on a new thread: what it needs to serve again, such as warming. Rejects when it cannot serve. */
  reopened(): Promise<void>
  /** It will not be open again. */
  abandoned(reason: string): void
}

/** Threads that may die over opening a session before it is given up. */
const maxDeathsOverOpening = 3

/** A session of a model on a worker. It outlives the worker's threads: on each new one it is opened and warmed again. */
export class WorkerSession implements WorkerResident {
  readonly id: number
  readonly worker: Worker
  #source: SessionSource
  readonly #clock: Clock
  readonly #arena: ArenaKeeper | null
  #batches: BatchSource | null = null
  #events: SessionEvents | null = null
  #state: SessionState | null = null
  #wasOpen = false
  readonly #noted: Record<string, string> = {}
  #readsGraph = false
  /** While it is opened elsewhere, for {@link open}. */
  #ahead: OpeningAhead | null = null
  /** The thread on which it is open. */
  #openOn: Executor | null = null
  #ready = false
  /** What the thread is doing for it now, or died over: opening or trying it. */
  #work: Promise<unknown> | null = null
  #closing: Promise<void> | null = null
  #leaving = false
  #deathsOverOpening = 0

  /**
   * A worker counts its sessions from here on, so that others are put elsewhere; until {@link close}.
   *
   * @param state of a session of the same model that is open, which this one has to have; `null` for the first.
   */
  constructor(
    id: number,
    worker: Worker,
    source: SessionSource,
    clock: Clock,
    state: SessionState | null = null,
  ) {
    this.id = id
    this.worker = worker
    this.#source = source
    this.#clock = clock
    this.#state = state
    this.#arena = ArenaKeeper.of(id, source.memory, clock, () => this.#shrinkArena())
    worker.attach(this)
  }

  /** Whether it is open on a thread that is not known to be gone. */
  get isOpen(): boolean {
    return this.#openOn !== null
  }

  /** `null` before it was open. */
  get state(): SessionState | null {
    return this.#state
  }

  /** Whether batches can be run on it now. */
  get ready(): boolean {
    return this.#ready
  }

  /** From now on it is opened from something else. */
  openFrom(source: SessionSource): void {
    this.#source = source
  }

  /** Begins to open it where nothing is run, also while its thread is being started; {@link open} waits for that. */
  openAhead(): void {
    if (this.#closing !== null || this.#ahead !== null) return
    const { model, options } = this.#source
    this.#ahead = this.worker.executor.openAhead?.(model, options) ?? null
    this.#ahead?.opened.catch(() => {}) // it may be closed before it is opened
  }

  /**
   * Opens it; rejects with ONNX Runtime's message, or when the thread dies.
   *
   * @param readsGraph whether something will be asked of its graph, which is read meanwhile.
   */
  open(readsGraph = false): Promise<OpenedSession> {
    this.#readsGraph = readsGraph
    // Where others are served nothing is to be held up by it.
    if (this.#state === null && this.worker.sessions > 1) this.openAhead()
    const opening = this.#ahead === null ? this.#openHere() : this.#openAfter(this.#ahead)
    return opening.catch((error: Error) =>
      Promise.reject(this.#closing === null ? error : new ThreadEndedError()),
    ) // stopped for that
  }

  async #openAfter(ahead: OpeningAhead): Promise<OpenedSession> {
    try {
      await ahead.opened.catch((error: Error) => {
        if (this.#source.original === undefined) throw error // else that is opened
      })
      if (this.#closing !== null) throw new ThreadEndedError() // who closes it is gone by now
      return await this.#openHere()
    } finally {
      ahead.release()
      this.#ahead = null
    }
  }

  #openHere(): Promise<OpenedSession> {
    return this.worker.ask(this, null, (executor) =>
      this.#during(async () => {
        if (this.#readsGraph) this.#readGraph(executor)
        const [opened, state] = await openFrom(executor, this.id, this.#source, () => this.#closing === null)
        this.#openOn = executor
        const first = this.#state ?? state
        checkSame(first, state, this.#source, this.#wasOpen ? 'content' : 'anything')
        this.#state = { ...first, shared: state.shared, isOriginal: state.isOriginal }
        this.#wasOpen = true
        return opened
      }),
    )
  }

  /** A file alone: what is in memory is read in the time that a look at it takes. */
  #readGraph(executor: Executor): void {
    const { model } = this.#source.original ?? this.#source
    this.#readsGraph = false
    if (typeof model === 'string') executor.prove?.(model, []).catch(() => {}) // a caller that asks something gets the error
  }

  /**
   * Proves from the graph of the model that it was opened from, or that what it was opened from was made of, what is asked of its rows;
   * see {@link Executor.prove}. Rejects when the thread dies.
   */
  async prove(questions: readonly RowQuestion[]): Promise<readonly RowProof[]> {
    const thread = this.#openOn
    if (thread === null || this.#closing !== null) throw new ThreadEndedError()
    const { model, options } = this.#source.original ?? this.#source
    if (options.externalData !== undefined)
      return [unproved('external data was given, which the graph is not read with')]
    const proofs =
      thread.prove === undefined
        ? [unproved('what runs it has no graph')]
        : await thread.prove(model, questions)
    return fileOf(model)?.anything === this.#state!.file?.anything
      ? proofs
      : [unproved('its file has changed since it was opened')]
  }

  /**
   * Runs it once on a sample, and has it stopped when that takes too long; rejects when the thread dies, and once it is being
   * closed.
   */
  async runSample(feeds: readonly (MailedValue | null)[], wantsOutputs = false): Promise<SampleRun> {
    const thread = this.#openOn
    if (thread === null || this.#closing !== null) throw new ThreadEndedError()
    const stop = () => this.worker.stopRun(this, true)
    const tried = (executor: Executor) =>
      within(this.#source.maxRunMs, this.#clock, () => executor.runSample(this.id, feeds, wantsOutputs), stop)
    const run = await this.worker.ask(this, thread, (executor) => this.#during(() => tried(executor)))
    if (run.error !== null && this.#closing !== null) throw new ThreadEndedError() // it was stopped
    return run
  }

  /** What was found out of it, by whichever model shares it; `''` for what is not known. */
  note(key: string): string {
    return this.#openOn?.note?.(this.id, key) || (this.#source.notes?.[key] ?? '')
  }

  /** Whether anything was known beforehand that begins like this. */
  isKnown(about: string): boolean {
    return Object.keys(this.#source.notes ?? {}).some((key) => key.startsWith(about))
  }

  setNote(key: string, value: string): void {
    this.#noted[key] = value
    this.#openOn?.setNote?.(this.id, key, value)
  }

  /** All that was noted here. */
  get noted(): Readonly<Record<string, string>> {
    return this.#noted
  }

  #shrinkArena(): Promise<void> {
    const thread = this.#openOn
    if (thread === null) return Promise.reject(new ThreadEndedError()) // with its arena
    return this.worker.ask(this, thread, (executor) => executor.shrinkArena!(this.id))
  }

  /** A batch was run on it. */
  ran(): void {
    if (this.#arena !== null && this.#openOn !== null) this.#arena.ran(this.#openOn)
  }

  /** What its arena holds; `null` for none, and when nobody can tell. */
  get arena(): Arena | null {
    return this.#openOn?.arena?.(this.id) ?? null
  }

  /** Takes batches from `batches` from now on. */
  serve(batches: BatchSource, events: SessionEvents): void {
    this.#batches = batches
    this.#events = events
    this.#ready = true
    this.worker.join(batches)
  }

  /** Takes no more batches; those that it was given come to their end, and so does the session with its thread. */
  leave(): void {
    this.#leaving = true
    this.#ready = false
  }

  /** Takes no more batches, stops being opened or tried, and releases the session when the batches that it was given are done. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#ready = false
    this.#arena?.close()
    this.#ahead?.release()
    if (this.#batches !== null) this.worker.part(this.#batches)
    this.worker.detach(this)
    await this.#work?.catch(() => {})
    const thread = this.#openOn
    if (thread === null) return
    // Behind the batches that it was given.
    await this.worker.ask(null, thread, (executor) => executor.close(this.id)).catch(() => {})
  }

  lost(reason: string): void {
    const diedOverIt = this.#work !== null
    this.#openOn = null
    this.#ready = false
    this.#work = null
    if (this.#batches === null || this.#leaving) return // whoever opens it is told, and nobody needs it again
    if (diedOverIt && ++this.#deathsOverOpening >= maxDeathsOverOpening) return this.abandon(reason)
    // A reopening may wait still for whichever thread comes: the session would be opened there twice.
    this.worker.withdraw(this)
    void this.#reopen()
  }

  abandon(reason: string): void {
    if (this.#closing !== null || this.#leaving) return
    void this.close()
    this.#events?.abandoned(reason)
  }

  async #reopen(): Promise<void> {
    try {
      await this.open()
      await this.#events!.reopened()
      if (this.#closing !== null || this.#leaving) return
      this.#ready = true
      this.#deathsOverOpening = 0
      this.worker.offer(this.#batches!)
    } catch (error) {
      // Of a thread that died over it `lost` is told, and tries again.
      if (!(error instanceof ThreadEndedError)) this.abandon((error as Error).message)
    }
  }

  async #during<T>(work: () => Promise<T>): Promise<T> {
    const doing = (this.#work = work())
    let threadEnded = false
    try {
      return await doing
    } catch (error) {
      threadEnded = error instanceof ThreadEndedError
      throw error
    } finally {
      // What the thread died over is kept for `lost`, which comes once it is known why.
      if (this.#work === doing && !threadEnded) this.#work = null
    }
  }
}

const unproved = (reason: string): RowProof => ({ verdict: 'unknown', node: null, reason })
