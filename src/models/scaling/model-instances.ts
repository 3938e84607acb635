import type { Placement } from '../../options/session-options.ts'
import { ThreadEndedError, type OpenedSession } from '../../run/executors/executor.ts'
import type { WarmUp } from '../../run/warm-up.ts'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import { isSame, type SessionState, type WorkerSession } from '../../run/worker-session.ts'
import type { Worker } from '../../run/worker.ts'
import { InstanceLife, type InstanceParts, type Seat } from './instance-life.ts'

/** What places instances. */
export interface Places {
  /** Chooses a worker for every instance and calls `place` for each; resolves when their threads have started. */
  place(place: (worker: Worker, placement: Placement, group: number) => void): Promise<void>
  /** The same for further instances beside one that was placed. */
  placeMore(
    beside: Worker,
    count: number,
    apartFrom: ReadonlySet<Worker>,
    place: (worker: Worker) => void,
    leaving?: readonly Worker[],
  ): Promise<void>
}

/** Further instances on the device of one that was placed. */
export interface More {
  readonly beside: Seat
  readonly count: number
  /** Those whose places they take; left out where they come to those that are there. */
  readonly insteadOf?: readonly InstanceLife[]
}

/** A session could not be opened; `cause` has ONNX Runtime's words. */
export class OpenFailed extends Error {
  override readonly name = 'OpenFailed'

  constructor(cause: Error) {
    super(cause.message, { cause })
  }
}

/**
 * The instances of a model: those that serve, and those that are to. Instances are opened, warmed and given memory before any of them
 * serves, in this order, whether they are the first of a load or come to others later.
 */
export class ModelInstances {
  /** One seat of each group and device that the load has placed, for further ones to be put beside. */
  readonly seats: Seat[] = []
  readonly #parts: InstanceParts
  readonly #places: Places
  readonly #isWanted: () => boolean
  #serving: InstanceLife[] = []
  #opening: InstanceLife[] = []
  #ending = new AbortController()
  /** Told that one is lost for good. */
  onGone: () => void = () => {}

  /** @param isWanted whether the model is to serve; else nothing more of opening instances is begun. */
  constructor(parts: InstanceParts, places: Places, isWanted: () => boolean) {
    this.#parts = parts
    this.#places = places
    this.#isWanted = isWanted
  }

  /** Those that serve. */
  get serving(): readonly InstanceLife[] {
    return this.#serving
  }

  /** Those that are being opened, in the order of their groups. */
  get opening(): readonly InstanceLife[] {
    return this.#opening
  }

  /**
   * Opens the instances that the configuration asks for, or more beside them.
   *
   * @param readsGraph whether the graph of the model is to be read while the first is opened.
   * @returns what their sessions said of themselves.
   */
  async open(
    more?: readonly More[],
    readsGraph: (first: WorkerSession) => boolean = () => false,
  ): Promise<OpenedSession[]> {
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
      throw new OpenFailed(new Error('its file has changed while it was loaded; load it again'))
    return results.map((result) => (result as PromiseFulfilledResult<OpenedSession>).value)
  }

  /**
   * Warms those that have been opened: at the same time, but for the first of a load.
   *
   * @param check of a load, on the first instance; see {@link WarmUp.run}.
   */
  async warm(warmUp: WarmUp, check?: (session: WorkerSession) => Promise<boolean>): Promise<void> {
    const [first, ...others] = this.#opening
    if (check !== undefined) await first!.warm(warmUp, () => check(first!.session))
    await Promise.all((check === undefined ? this.#opening : others).map((life) => life.warm(warmUp)))
  }

  /** Takes what memory is to be had before the first batch, and looks whether all are there still. */
  async reserve(metadata: ModelMetadata): Promise<void> {
    for (const life of this.#opening) await life.reserve(metadata)
    this.checkOpen()
  }

  /** Looks whether those that are to serve are open still. */
  checkOpen(): void {
    this.checkWanted()
    // Nobody was told of a thread that died while nothing was asked of it.
    if (!this.#opening.every(({ session }) => session.isOpen)) throw new ThreadEndedError()
  }

  /** Has all that were opened take batches. */
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
  }

  /** Takes an instance out, once it is done with what it has begun. */
  takeOut(life: InstanceLife, scheduler: Scheduler): Promise<void> {
    this.#serving = this.#serving.filter((other) => other !== life)
    return life.leave(scheduler)
  }

  /** Stops what is being done for those that are being opened, which rejects. */
  stopOpening(): void {
    this.#ending.abort(new ThreadEndedError())
    for (const life of this.#opening) void life.close()
  }

  /** As if nothing had been opened. */
  async startAgain(): Promise<void> {
    await this.closeOpening()
    this.seats.length = 0
  }

  /** Closes those that were to be opened. */
  async closeOpening(): Promise<void> {
    await Promise.all(this.#opening.map((life) => life.close()))
    this.#opening = []
  }

  /** Closes those that serve; no batch may be in flight. */
  async close(): Promise<void> {
    await Promise.all(this.#serving.map((life) => life.close()))
  }

  /** @throws ThreadEndedError when the model is not to serve any more. */
  checkWanted(): void {
    if (!this.#isWanted()) throw new ThreadEndedError()
  }

  /** The lowest that no instance has. */
  get #lowestNumber(): number {
    const taken = this.#serving.map(({ number }) => number)
    let number = 0
    while (taken.includes(number)) number++
    return number
  }

  /** While the threads start it is found out what the sessions are opened from. */
  async #placeFirst(): Promise<void> {
    const { signal } = (this.#ending = new AbortController())
    const preparing = { done: Promise.resolve(), begun: false, threadsStart: true }
    const placing = this.#places.place((worker, placement, group) => {
      this.#add({ worker, placement, group })
      if (preparing.begun) return
      preparing.begun = true
      preparing.done = this.#prepare(signal, () => preparing.threadsStart)
      preparing.done.catch(() => {}) // it is told of below
    })
    try {
      await placing
    } catch (error) {
      this.#ending.abort(error)
      throw error
    }
    preparing.threadsStart = false
    await preparing.done
  }

  async #prepare(signal: AbortSignal, threadsStart: () => boolean): Promise<void> {
    const { sources } = this.#parts
    await sources.prepare(signal)
    for (const life of this.#opening) life.prepared()
    if (sources.origin!.compiled && threadsStart()) this.#opening[0]?.session.openAhead()
  }

  async #placeMore({ beside, count, insteadOf = [] }: More): Promise<void> {
    const present = [...this.#serving, ...this.#opening]
      .filter((life) => !insteadOf.includes(life))
      .map(({ seat }) => seat.worker)
    const leaving = insteadOf.map(({ seat }) => seat.worker)
    await this.#places.placeMore(
      beside.worker,
      count,
      new Set(present),
      (worker) => this.#add({ ...beside, worker }),
      leaving,
    )
  }

  #add(seat: Seat): void {
    const at = this.seats.findIndex((other) => isOn(other, seat))
    this.seats.splice(at === -1 ? this.seats.length : at, 1, seat) // further ones are put beside the last
    const like =
      this.#serving.find((life) => isBeside(life.seat, seat) && life.session.isOpen) ?? this.#serving[0]
    this.#opening.push(new InstanceLife(seat, this.#parts, like === undefined ? null : stateFor(seat, like)))
  }
}

/** Whether both are of one group and device. */
function isOn(one: Seat, other: Seat): boolean {
  return one.group === other.group && one.placement.gpu === other.placement.gpu
}

/** Whether instances there have sessions with the same settings. */
function isBeside(one: Seat, other: Seat): boolean {
  return isOn(one, other) && one.placement.intraOpNumThreads === other.placement.intraOpNumThreads
}

/** What a session has to have to be of one model with an instance. */
function stateFor(seat: Seat, { seat: its, session }: InstanceLife): SessionState {
  return isBeside(seat, its) && session.isOpen ? session.state! : { ...session.state!, shared: null }
}

/** Whether an instance is of one model with the first, and with the first of its settings. */
function isLike(lives: readonly InstanceLife[], { seat, session }: InstanceLife): boolean {
  const firsts = [lives[0]!, lives.find((other) => isBeside(other.seat, seat))!]
  return firsts.every((first) => isSame(session.state!, stateFor(seat, first), 'anything'))
}
