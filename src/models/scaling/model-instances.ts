import { type Placement, cudaDevice, sessionOptions, secondSession } from '../../options/session-options.ts'
import { ThreadEndedError, type OpenedSession } from '../../run/executors/executor.ts'
import { type WarmUp, holdsLater } from '../warm-up.ts'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import { isSame, type SessionState, WorkerSession, type SessionSource } from '../../run/worker-session.ts'
import type { Worker } from '../../run/worker.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { toleranceWith } from '../row-check/compare-rows.ts'
import { ModelInstance } from '../../run/model-instance.ts'
import { slotsFor } from '../../run/staging-slot.ts'
import { slotsAhead } from '../../run/layout.ts'
import type { StagingBuffer } from '../../native/staging-pool.ts'
import type { ModelHost } from '../model-host.ts'
import type { PreparedModel, SessionNotes } from '../compiled-models/model-preparation.ts'
import type { ModelOrigin } from '../../options/engine-options.ts'

/** More instances on the device of a placed one. */
export interface More {
  readonly beside: Seat
  readonly count: number
  /** The instances they replace; undefined if they are additional. */
  readonly insteadOf?: readonly InstanceLife[]
}

/** A session could not be opened; `cause` has ONNX Runtime's message. */
export class OpenFailed extends Error {
  override readonly name = 'OpenFailed'

  constructor(cause: Error) {
    super(cause.message, { cause })
  }
}

/**
 * The instances of a model: those that serve, and those that are being opened. Instances are opened, warmed up and
 * given memory before any of them serves, in this order, at load and when instances are added later.
 */
export class ModelInstances {
  /** One seat per group and device from the load; more instances are placed next to it. */
  readonly seats: Seat[] = []
  readonly name: string
  readonly config: ResolvedConfig
  readonly host: ModelHost
  readonly #leaving: readonly Worker[]
  /** What its sessions are opened from, if not what the host prepares. */
  readonly #given: PreparedModel | null
  #prepared: PreparedModel | null = null
  readonly #isWanted: () => boolean
  #serving: InstanceLife[] = []
  #opening: InstanceLife[] = []
  #ending = new AbortController()
  /** Called when an instance is lost for good. */
  onGone: () => void = () => {}

  /**
   * @param isWanted whether the model should still serve; if not, no further step of opening begins.
   * @param leaving the workers of sessions that are released once this model serves.
   * @param prepared what its sessions are opened from. Default: the host decides that.
   */
  constructor(
    name: string,
    config: ResolvedConfig,
    host: ModelHost,
    isWanted: () => boolean,
    { leaving = [], prepared = null }: InstanceOrigin = {},
  ) {
    this.name = name
    this.config = config
    this.host = host
    this.#given = prepared
    this.#leaving = leaving
    this.#isWanted = isWanted
  }

  /** The serving instances. */
  get serving(): readonly InstanceLife[] {
    return this.#serving
  }

  /** The instances being opened, in the order of their groups. */
  get opening(): readonly InstanceLife[] {
    return this.#opening
  }

  /**
   * Opens the configured instances, or more next to them.
   *
   * @param readsGraph whether to read the model's graph while the first one opens.
   * @returns what their sessions report about the model.
   */
  async open(
    more?: readonly More[],
    readsGraph: (first: WorkerSession) => boolean = () => false,
  ): Promise<OpenedSession[]> {
    this.checkWanted() // before an end to come is listened for
    if (more === undefined) await this.#placeFirst()
    else for (const each of more) await this.#placeMore(each)
    this.checkWanted()
    const results = await Promise.allSettled(
      this.#opening.map((life, index) => life.open(index === 0 && readsGraph(life.session))),
    )
    const failed = results.find((result) => result.status === 'rejected')
    if (failed !== undefined)
      throw failed.reason instanceof ThreadEndedError ? failed.reason : new OpenFailed(failed.reason as Error)
    this.checkWanted()
    if (!this.#opening.every((life) => isLike(this.#opening, life)))
      throw new OpenFailed(new Error('its file changed while it was loaded; load it again'))
    return results.map((result) => (result as PromiseFulfilledResult<OpenedSession>).value)
  }

  /**
   * Warms up opened instances: concurrently, after the first one of a load.
   *
   * @param check the row check of a load, on the first instance; see {@link WarmUp.run}.
   */
  async warm(warmUp: WarmUp, check?: (session: WorkerSession) => Promise<boolean>): Promise<void> {
    const [first, ...others] = this.#opening
    if (check !== undefined) await first!.warm(warmUp, () => check(first!.session))
    await Promise.all((check === undefined ? this.#opening : others).map((life) => life.warm(warmUp)))
  }

  /** Allocates memory that is needed before the first batch, and checks that all instances are still there. */
  async reserve(metadata: ModelMetadata): Promise<void> {
    for (const life of this.#opening) await life.reserve(metadata)
    this.checkOpen()
  }

  /** Checks that the instances about to serve are still open. */
  checkOpen(): void {
    this.checkWanted()
    // A thread that died while idle was not reported.
    if (!this.#opening.every(({ session }) => session.isOpen)) throw new ThreadEndedError()
  }

  /** Lets all opened instances take batches. */
  serve(scheduler: Scheduler): void {
    const opened = this.#opening
    this.#opening = []
    for (const life of opened) {
      life.onGone = () => {
        this.#serving = this.#serving.filter((other) => other !== life)
        this.onGone()
      }
      life.serve(scheduler, this.#lowestNumber)
      this.#serving = [...this.#serving, life]
    }
    scheduler.wake()
    this.#prepared?.serves()
  }

  /** Removes an instance once its started work is done. */
  takeOut(life: InstanceLife, scheduler: Scheduler): Promise<void> {
    this.#serving = this.#serving.filter((other) => other !== life)
    return life.leave(scheduler)
  }

  /** Aborts the opening of instances, which then rejects. */
  stopOpening(): void {
    this.#ending.abort(new ThreadEndedError())
    for (const life of this.#opening) void life.close()
  }

  /** Resets to the state before anything was opened. */
  async startAgain(): Promise<void> {
    await this.closeOpening()
    this.seats.length = 0
  }

  /** Closes the instances that were being opened. */
  async closeOpening(): Promise<void> {
    await Promise.all(this.#opening.map((life) => life.close()))
    this.#opening = []
  }

  /** Closes the serving instances; no batch may be in flight. */
  async close(): Promise<void> {
    await Promise.all([...this.#serving.map((life) => life.close()), this.#prepared?.close()])
  }

  /** What its sessions are opened from: the model itself, or its compiled form; `null` before it was prepared. */
  get origin(): ModelOrigin | null {
    return this.#prepared?.origin ?? null
  }

  /** The source of a session at a place. */
  sourceAt(placement: Placement): SessionSource {
    const { path, bytes, memory, maxRunMs, function: fn } = this.config
    if (fn !== null) return { model: path, options: { function: fn }, memory, maxSampleMs: maxRunMs }
    const model = bytes ?? path
    const options = sessionOptions(this.config, placement, this.host.sessionRuntime(this.name))
    const prepared = this.#prepared
    const source = {
      memory,
      maxSampleMs: maxRunMs,
      ...(prepared?.opening(model, options) ?? { model, options }),
    }
    if (source.original === undefined) return source
    // The weights of a compiled form are mapped: two sessions of it have them once.
    const second = secondSession(this.config, placement, prepared!.compiledBytes)
    if (second.secondThreads === undefined || !prepared!.answersAlike()) return source
    return { ...source, options: { ...source.options, ...second } }
  }

  /** Records facts found about the model, also for later processes. */
  learnt(notes: SessionNotes): void {
    this.#prepared!.learnt(Object.fromEntries(Object.entries(notes).filter(([about]) => holdsLater(about))))
  }

  /** @throws ThreadEndedError when the model should no longer serve. */
  checkWanted(): void {
    if (!this.#isWanted()) throw new ThreadEndedError()
  }

  /** The lowest free number. */
  get #lowestNumber(): number {
    const taken = this.#serving.map(({ number }) => number)
    let number = 0
    while (taken.includes(number)) number++
    return number
  }

  /** Prepares what sessions are opened from while the threads start. */
  async #placeFirst(): Promise<void> {
    const { signal } = (this.#ending = new AbortController())
    const preparing = { done: Promise.resolve(), begun: false }
    const place = (worker: Worker, placement: Placement, group: number) => {
      this.#add({ worker, placement, group })
      if (preparing.begun) return
      preparing.begun = true
      preparing.done = this.#prepare(signal)
      preparing.done.catch(() => {}) // the error is handled below
    }
    const placing = this.host.place(this.name, this.config, place, this.#leaving)
    try {
      await placing
    } catch (error) {
      this.#ending.abort(error)
      throw error
    }
    await preparing.done
  }

  /** Prepares the model for the available execution providers; repeated when those have changed. */
  async #prepare(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    await this.#prepared?.close()
    this.#prepared = this.#given ?? (await this.host.prepare(this.name, this.config, signal))
    if (signal.aborted) await this.#prepared.close() // the load has failed, and closed what there was then
    signal.throwIfAborted()
    for (const life of this.#opening) life.prepared()
  }

  async #placeMore({ beside, count, insteadOf = [] }: More): Promise<void> {
    const present = [...this.#serving, ...this.#opening]
      .filter((life) => !insteadOf.includes(life))
      .map(({ seat }) => seat.worker)
    const leaving = insteadOf.map(({ seat }) => seat.worker)
    await this.host.placeMore(
      beside.worker,
      count,
      new Set(present),
      (worker) => this.#add({ ...beside, worker }),
      leaving,
    )
  }

  #add(seat: Seat): void {
    const at = this.seats.findIndex((other) => isOn(other, seat))
    this.seats.splice(at === -1 ? this.seats.length : at, 1, seat) // more instances are placed next to the last one
    const like =
      this.#serving.find((life) => isBeside(life.seat, seat) && life.session.isOpen) ?? this.#serving[0]
    this.#opening.push(new InstanceLife(seat, this, like === undefined ? null : stateFor(seat, like)))
  }
}

/** Whether both have the same group and device. */
function isOn(one: Seat, other: Seat): boolean {
  return one.group === other.group && one.placement.gpu === other.placement.gpu
}

/** Whether sessions of instances there have the same settings. */
function isBeside(one: Seat, other: Seat): boolean {
  return isOn(one, other) && one.placement.intraOpNumThreads === other.placement.intraOpNumThreads
}

/** The session state required of an instance next to another one. */
function stateFor(seat: Seat, { seat: its, session }: InstanceLife): SessionState {
  return isBeside(seat, its) && session.isOpen ? session.state! : { ...session.state!, shared: null }
}

/** Whether an instance's session matches the first one, and the first with its settings. */
function isLike(lives: readonly InstanceLife[], { seat, session }: InstanceLife): boolean {
  const firsts = [lives[0]!, lives.find((other) => isBeside(other.seat, seat))!]
  return firsts.every((first) => isSame(session.state!, stateFor(seat, first), 'anything'))
}

/** The place of an instance. */
export interface Seat {
  readonly worker: Worker
  readonly placement: Placement
  /** Index of its group among the model's. */
  readonly group: number
}

/** Where instances of a model come from. */
export interface InstanceOrigin {
  readonly leaving?: readonly Worker[] | undefined
  readonly prepared?: PreparedModel | null | undefined
}

/** The life of one instance of a model: it is opened, warmed up, serves, and is removed. */
export class InstanceLife {
  readonly seat: Seat
  readonly session: WorkerSession
  /** Allowed difference of its session's results; see {@link toleranceWith}. */
  readonly tolerance: number
  /** Called when no thread can be started for it any more. */
  onGone: () => void = () => {}
  /** Its number within the model; -1 before it serves. */
  number = -1
  readonly #of: ModelInstances
  #movesFromBytes = 0
  /** Memory for its slots, until it serves. */
  #ahead: readonly StagingBuffer[] = []
  #warmUp: WarmUp | null = null
  #instance: ModelInstance | null = null

  /** @param state the session state of another instance, which this one's must match; `null` for the first. */
  constructor(seat: Seat, of: ModelInstances, state: SessionState | null) {
    const source = of.sourceAt(seat.placement)
    this.seat = seat
    this.#of = of
    this.tolerance = toleranceWith(source.options)
    this.session = new WorkerSession(of.host.nextId(), seat.worker, source, of.host.clock, state)
  }

  /** The model was prepared: the session opens from the result. */
  prepared(): void {
    this.session.openFrom(this.#of.sourceAt(this.seat.placement))
  }

  /** Opens its session; see {@link WorkerSession.open}. */
  async open(readsGraph = false): Promise<OpenedSession> {
    const opened = await this.session.open(readsGraph)
    this.#movesFromBytes = opened.carrier.movesFromBytes
    return opened
  }

  /** Warms it up, now and again on each new thread; see {@link WarmUp.run}. */
  warm(warmUp: WarmUp, check?: () => Promise<boolean>): Promise<void> {
    this.#warmUp = warmUp
    const { kind, gpu } = this.seat.placement
    return warmUp.run(this.session, `${kind} ${gpu}`, check)
  }

  /** Allocates memory for its slots if that must not wait for the first batch. */
  async reserve(metadata: ModelMetadata): Promise<void> {
    const staging = this.#of.host.stagingOf(this.#of.config)
    this.#ahead = await slotsAhead(staging, metadata, this.seat.placement, slotsFor(1))
  }

  /** Takes batches from now on, under this number. */
  serve(scheduler: Scheduler, number: number): void {
    this.number = number
    const { name, config, host } = this.#of
    const staging = host.stagingOf(config)
    const device = cudaDevice(this.seat.placement)
    const instance = new ModelInstance({
      scheduler,
      name: `${name}_${number}`,
      session: this.session,
      weight: config.weight,
      source: {
        nextSlotId: () => host.nextId(),
        acquire: (byteLength) => staging.acquire(byteLength, device),
        acquireSpare: (byteLength) => staging.acquireSpare(byteLength, device),
        trim: () => staging.trim(),
        movesFromBytes: this.#movesFromBytes,
        device,
      },
      concurrency: config.function?.concurrency,
    })
    this.#instance = instance
    instance.adopt(this.#ahead)
    this.#ahead = []
    scheduler.instances.add(instance)
    this.session.serve(instance, {
      reopened: async () => {
        instance.forgetLayouts()
        await this.warm(this.#warmUp!)
      },
      abandoned: (reason) => {
        scheduler.abandoned(instance, reason)
        instance.release()
        this.onGone()
      },
    })
  }

  /** Since when it has been idle; `null` while it has work, or does not serve. */
  get idleSinceMs(): number | null {
    return this.#instance?.idleSinceMs ?? null
  }

  /** Milliseconds it has been busy so far. */
  get busyMs(): number {
    return this.#instance?.busyMs ?? 0
  }

  /** Takes no more batches, returns those not started, and closes when the rest is done. */
  async leave(scheduler: Scheduler): Promise<void> {
    const instance = this.#instance!
    this.session.leave()
    scheduler.instances.retire(instance)
    if (instance.revokePrefetched()) scheduler.wake()
    await instance.drained()
    await this.close()
    scheduler.instances.remove(instance)
  }

  /** Releases its memory and session; no batch may be in flight. */
  async close(): Promise<void> {
    for (const buffer of this.#ahead) buffer.release()
    this.#ahead = []
    // Before the worker's release, so that the worker's thread frees the memory.
    this.#instance?.release()
    await this.session.close()
    await this.#of.host.released(this.seat.worker)
  }
}
