import type { Clock } from '../base/clock.ts'
import {
  ThreadEndedError,
  type Executor,
  type OpenedSession,
  type OpeningAhead,
  type SampleRun,
} from './executors/executor.ts'
import type { Arena } from '../observe/model-statistics.ts'
import type { RowProof, RowQuestion } from '../onnx/row-proof/prove-rows.ts'
import type { MailedValue } from '../tensor/values.ts'
import type { ModelInstance } from './model-instance.ts'
import { prove } from './prover.ts'
import { ThreadChoice } from './thread-time.ts'
import type { Worker } from './worker.ts'
import { nameOf, type OpenOptions, type ResolvedMemory } from '../options/session-options.ts'
import { crowdWatch } from '../base/available-resources.ts'
import { stampOf, type FileStamp } from '../base/files.ts'
import { warn } from '../base/warnings.ts'

/** What becomes of a session whose thread died; see {@link WorkerSession.serve}. */
interface SessionEvents {
  /** It is open on a new thread: what it needs to serve again, such as warming. Rejects when it cannot serve. */
  reopened(): Promise<void>
  /** It will not be open again. */
  abandoned(reason: string): void
}

/** Threads that may die over opening a session before it is given up. */
const maxDeathsOverOpening = 3

/** A session of a model on a worker. It outlives the worker's threads: on each new one it is opened and warmed again. */
export class WorkerSession {
  readonly id: number
  readonly worker: Worker
  /** Whether batches can be run on it now; only it sets this. */
  ready = false
  #source: SessionSource
  readonly #clock: Clock
  readonly #arena: ArenaKeeper | null
  /** `null` without a second session; only it sets this. */
  threadChoice: ThreadChoice | null = null
  /** Which session runs batches in halves: it has one thread, and only the provider of the CPU, so that two threads may run it at once. */
  halvedOn: 'first' | 'second' | null = null
  /** Whether what its arena keeps is looked after: then it has to know of each run. */
  readonly keepsArena: boolean
  #batches: ModelInstance | null = null
  #events: SessionEvents | null = null
  #state: SessionState | null = null
  #wasOpen = false
  readonly #noted: Record<string, string> = {}
  #readsGraph = false
  /** While it is opened elsewhere, for {@link open}. */
  #ahead: OpeningAhead | null = null
  /** The thread on which it is open. */
  #openOn: Executor | null = null
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
    this.keepsArena = this.#arena !== null
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

  /** From now on it is opened from something else. */
  openFrom(source: SessionSource): void {
    this.#source = source
  }

  /** Begins to open it where nothing is run. */
  #openAhead(): void {
    if (this.#closing !== null || this.#ahead !== null) return
    const { model, options } = this.#source
    this.#ahead = this.worker.threads.executor.openAhead?.(model, options) ?? null
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
    if (this.#state === null && this.worker.sessions > 1) this.#openAhead()
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
        if (this.#readsGraph) this.#readGraph()
        const [opened, state] = await openFrom(executor, this.id, this.#source, () => this.#closing === null)
        this.#openOn = executor
        const first = this.#state ?? state
        checkSame(first, state, this.#source, this.#wasOpen ? 'content' : 'anything')
        this.#state = { ...first, shared: state.shared, isOriginal: state.isOriginal }
        this.#wasOpen = true
        const { secondFor, intraOpNumThreads, executionProviders = [] } = this.#source.options
        this.threadChoice =
          secondFor === undefined || state.isOriginal
            ? null
            : (this.threadChoice ?? new ThreadChoice(secondFor, crowdWatch()))
        const { threadChoice } = this
        const isOnCpu = executionProviders.every((provider) => nameOf(provider) === 'cpu')
        if (!isOnCpu || executor.runsHalves !== true) this.halvedOn = null
        else if (threadChoice === null) this.halvedOn = intraOpNumThreads === 1 ? 'first' : null
        else this.halvedOn = threadChoice.secondFor === 'short runs' ? 'second' : null
        return opened
      }),
    )
  }

  /** A file alone: what is in memory is read in the time that a look at it takes. */
  #readGraph(): void {
    const { model } = this.#source.original ?? this.#source
    this.#readsGraph = false
    if (typeof model === 'string') prove(model, []).catch(() => {}) // a caller that asks something gets the error
  }

  /**
   * Proves from the graph of the model that it was opened from, or that what it was opened from was made of, what is asked of its rows;
   * see {@link prove}. Rejects when its thread is gone.
   */
  async prove(questions: readonly RowQuestion[]): Promise<readonly RowProof[]> {
    const thread = this.#openOn
    if (thread === null || this.#closing !== null) throw new ThreadEndedError()
    const { model, options } = this.#source.original ?? this.#source
    if (options.externalData !== undefined)
      return [unproved('external data was given, which the graph is not read with')]
    if (options.function !== undefined) return [unproved('what runs it has no graph')]
    const proofs = await prove(model, questions)
    const { file, beside } = this.#state!
    return fileOf(model, beside)?.anything === file?.anything
      ? proofs
      : [unproved('its file changed since it was opened')]
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
      within(
        this.#source.maxSampleMs,
        this.#clock,
        () => executor.runSample(this.id, feeds, wantsOutputs),
        stop,
      )
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
    return this.worker.ask(this, thread, (executor) => executor.shrinkArena!(this.id), true)
  }

  /** A batch was run on it, which {@link keepsArena}. */
  ran(): void {
    if (this.#openOn !== null) this.#arena?.ran(this.#openOn)
  }

  /** What its arena holds; `null` for none, and when it is not known. */
  get arena(): Arena | null {
    return this.#openOn?.arena?.(this.id) ?? null
  }

  /** Takes batches from `batches` from now on. */
  serve(batches: ModelInstance, events: SessionEvents): void {
    this.#batches = batches
    this.#events = events
    this.ready = true
    this.worker.join(batches)
  }

  /** Takes no more batches; those that it was given come to their end, and so does the session with its thread. */
  leave(): void {
    this.#leaving = true
    this.ready = false
  }

  /** Takes no more batches, stops being opened or tried, and releases the session when the batches that it was given are done. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.ready = false
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
    this.ready = false
    this.#work = null
    if (this.#batches === null || this.#leaving) return // opening it rejects, or it is not needed any more
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
      this.ready = true
      this.#deathsOverOpening = 0
      this.worker.offer(this.#batches!)
    } catch (error) {
      // When a thread dies over it, `lost` is called, and tries again.
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

const unproved = (reason: string): RowProof => ({ rows: 'unknown', node: null, reason })

/** What a session is opened from. */
export interface SessionSource {
  /** A path, or bytes. */
  readonly model: string | SharedArrayBuffer
  readonly options: OpenOptions
  readonly memory: ResolvedMemory
  /** Longest time of a run of a sample; 0 for none. */
  readonly maxSampleMs: number
  /** What is known of it beforehand. */
  readonly notes?: Readonly<Record<string, string>>
  /**
   * The model that a compiled one was made from. It is opened where the compiled one cannot be, or is stale by the time it is open
   * (`isStillMade`); `used` is then called with the reason.
   */
  readonly original?:
    | (Pick<SessionSource, 'model' | 'options'> & { isStillMade(): boolean; used(reason: string): void })
    | undefined
}

/**
 * Opens a session from a source, or else from what that was made from.
 *
 * @param isWanted whether it is not to be closed meanwhile.
 */
export async function openFrom(
  executor: Executor,
  id: number,
  { model, options, original }: SessionSource,
  isWanted: () => boolean,
): Promise<[OpenedSession, SessionState]> {
  const source = original ?? { model, options }
  const beside = await filesBeside(executor, source)
  const file = fileOf(source.model, beside)
  let isOriginal = original === undefined
  const openOriginal = (reason: string): Promise<OpenedSession> => {
    original!.used(reason)
    isOriginal = true
    return executor.open(id, original!.model, original!.options)
  }
  let opened = await executor.open(id, model, options).catch((error: Error) => {
    if (original === undefined || error instanceof ThreadEndedError || !isWanted()) throw error
    return openOriginal(error.message)
  })
  if (!isOriginal && !original!.isStillMade()) {
    await executor.close(id)
    if (!isWanted()) throw new ThreadEndedError()
    opened = await openOriginal('it changed while it was opened')
  }
  return [
    opened,
    {
      values: JSON.stringify([opened.inputs, opened.outputs]),
      file,
      beside,
      shared: opened.shared ?? null,
      isOriginal,
    },
  ]
}

/**
 * A file that has become another model's since would answer beside instances of the first, and be fed what was checked for that.
 *
 * @param first state of the session that was opened first.
 * @param by where the session was open before, its file's rights may be others by now.
 */
function checkSame(
  first: SessionState,
  state: SessionState,
  { model, original }: SessionSource,
  by: keyof FileStamp,
): void {
  const now = state.isOriginal ? fileOf((original ?? { model }).model, state.beside) : state.file
  if (state.file?.anything !== now?.anything)
    throw new Error('its file changed while it was opened; load it again')
  if (!isSame(first, state, by)) throw new Error('its file changed since it was loaded; load it again')
}

/** What a session is of. */
export interface SessionState {
  /** Its inputs and outputs, as text. */
  readonly values: string
  /** Of the model as it is, with the files beside it; `null` for bytes. */
  readonly file: FileStamp | null
  /** Paths of files with its weights, where each session reads them anew. */
  readonly beside: readonly string[]
  /** See {@link OpenedSession.shared}; `null` for one that is not, or is of another device. */
  readonly shared: number | null
  /** Whether it was opened from that, and not from what was made from it. */
  readonly isOriginal: boolean
}

/** The files that a session is opened from, as they are now; `null` for bytes. */
function fileOf(model: string | SharedArrayBuffer, beside: readonly string[]): FileStamp | null {
  if (typeof model !== 'string') return null
  const stamps = [model, ...beside].map(stampOf)
  const joined = (by: keyof FileStamp) => stamps.map((stamp) => stamp[by]).join()
  return { content: joined('content'), anything: joined('anything') }
}

/** Files with a model's weights, if each session reads them anew. With the addon on the CPU all threads share one session: none. */
async function filesBeside(
  executor: Executor,
  { model, options }: Pick<SessionSource, 'model' | 'options'>,
): Promise<readonly string[]> {
  const { executionProviders = [] } = options
  const isOnCpu = executionProviders.every((each) => (typeof each === 'string' ? each : each.name) === 'cpu')
  if ((executor.openAhead !== undefined && isOnCpu) || options.function !== undefined) return []
  if (typeof model !== 'string') return []
  const { readOnnxFile } = await import('../onnx/read-onnx-file.ts') // seldom needed
  const file = await readOnnxFile(model).catch(() => null) // ONNX Runtime says what is wrong with it
  return file?.externalFiles.map(({ path }) => path) ?? []
}

/** Whether two sessions are of one model. */
export function isSame(one: SessionState, other: SessionState, by: keyof FileStamp): boolean {
  const isShared =
    by === 'content' ||
    one.isOriginal !== other.isOriginal ||
    one.shared === null ||
    other.shared === null ||
    one.shared === other.shared
  const ofFile = one.isOriginal || other.isOriginal // else whatever that holds by now
  return isShared && one.values === other.values && (!ofFile || one.file?.[by] === other.file?.[by])
}

/**
 * Runs a sample, and has it stopped when it takes too long: the run of a warm-up may never end, and other models wait for the
 * same worker.
 *
 * @param maxRunMs 0 for no limit.
 * @returns the run; one that was stopped says so as its error.
 */
async function within(
  maxRunMs: number,
  clock: Clock,
  run: () => Promise<SampleRun>,
  stop: () => void,
): Promise<SampleRun> {
  if (maxRunMs === 0) return run()
  let isLate = false
  const timer = clock.setTimer(() => {
    isLate = true
    stop()
  }, maxRunMs)
  try {
    const done = await run()
    return isLate && done.error !== null
      ? { ...done, error: `it took longer than maxRunMs, ${maxRunMs} ms` }
      : done
  } finally {
    clock.clearTimer(timer)
  }
}

/** After how long without a run an arena is idle, in milliseconds. */
const idleMs = 2000

/** The arena's first piece, which it keeps, in bytes. */
const firstPieceBytes = 2 ** 20

const warned = new Set<string>()

/** Has the arena of a session give back what its runs have left there, as its model asks for. */
class ArenaKeeper {
  readonly #sessionId: number
  readonly #memory: ResolvedMemory
  readonly #clock: Clock
  readonly #shrink: () => Promise<void>
  #timer: unknown = null
  #lastRunMs = 0
  #asked = false
  #closed = false

  private constructor(sessionId: number, memory: ResolvedMemory, clock: Clock, shrink: () => Promise<void>) {
    this.#sessionId = sessionId
    this.#memory = memory
    this.#clock = clock
    this.#shrink = shrink
  }

  /**
   * `null` for a model that asks for nothing of the kind.
   *
   * @param shrink has the arena give back what is not in use.
   */
  static of(
    sessionId: number,
    memory: ResolvedMemory,
    clock: Clock,
    shrink: () => Promise<void>,
  ): ArenaKeeper | null {
    return memory.shrink === undefined && memory.limitBytes === Infinity
      ? null
      : new ArenaKeeper(sessionId, memory, clock, shrink)
  }

  /** A run is done on a thread. */
  ran(executor: Executor): void {
    if (this.#closed) return
    if (executor.shrinkArena === undefined) return warnOnce("take the native executor (executor: 'native')")
    const { shrink, limitBytes } = this.#memory
    if (
      shrink === 'run' ||
      (limitBytes < Infinity && this.#keptBytes(executor) > Math.max(limitBytes, firstPieceBytes))
    )
      return this.#ask()
    if (shrink !== 'idle') return
    this.#lastRunMs = this.#clock.nowMs()
    this.#timer ??= this.#clock.setTimer(this.#look, idleMs)
  }

  close(): void {
    this.#closed = true
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
  }

  /** What it has and nothing uses. */
  #keptBytes(executor: Executor): number {
    const arena = executor.arena!(this.#sessionId)
    return arena === null ? 0 : arena.totalBytes - arena.inUseBytes
  }

  #ask(): void {
    if (this.#asked) return
    this.#asked = true
    this.#shrink()
      .catch((error: Error) => {
        // What is asked of a session that is closed is stopped.
        if (!this.#closed && !(error instanceof ThreadEndedError))
          warnOnce(`could not be done for a model: ${error.message}`)
      })
      .finally(() => (this.#asked = false))
  }

  readonly #look = (): void => {
    const leftMs = this.#lastRunMs + idleMs - this.#clock.nowMs()
    this.#timer = leftMs > 0 ? this.#clock.setTimer(this.#look, leftMs) : null
    if (this.#timer === null) this.#ask()
  }
}

function warnOnce(why: string): void {
  if (warned.has(why)) return
  warned.add(why)
  const message = `memory.shrink and memory.limitBytes ${why}; no memory is freed before the model is unloaded.`
  warn('ZEROHOP_MEMORY_IGNORED', message)
}
