import type { Clock } from '../clock.ts'
import type { FromWorker } from '../executor/binding/protocol.ts'
import type { RunTimestamps } from '../executor/executor.ts'
import type { WorkerEvent } from '../observability/engine-events.ts'
import type { Tenant } from './tenant.ts'
import type { ThreadSource } from './thread-source.ts'
import { WorkerTime } from './worker-time.ts'
import type { WorkerLink } from '../executor/binding/worker-link.ts'

const restartDelaysMs = [0, 100, 1000]

/**
 * A place for a worker thread and the tenants that live there. It outlives its threads: a dead one is replaced with
 * back-off and its tenants are restored. Tenants share the thread by measured milliseconds and weight.
 */
export class Worker {
  /** True when no thread could be had any more: nobody should come to live here. */
  givenUp = false
  readonly #source: ThreadSource
  readonly #clock: Clock
  readonly #time: WorkerTime
  #link: WorkerLink
  #started: Promise<void> | null = null
  #starting: Promise<void> | null = null
  #serving = false
  #closing = false
  #failures = 0
  #restartTimer: unknown = null
  readonly #changed: (type: WorkerEvent['type'], reason?: string) => void

  constructor(source: ThreadSource, clock: Clock, changed: (type: WorkerEvent['type'], reason?: string) => void) {
    this.#source = source
    this.#clock = clock
    this.#changed = changed
    this.#time = new WorkerTime(clock)
    this.#link = this.#newLink()
  }

  /** Batches handed over and not yet back. */
  get outstanding(): number {
    return this.#time.outstanding
  }

  get tenants(): number {
    return this.#time.shares.size
  }

  /** When the worker is reckoned to be done with what it was given, in milliseconds from now. */
  get freeInMs(): number {
    return this.#time.freeInMs
  }

  /** How many times longer a tenant's work takes here because others have work too. */
  sharing(weight: number): number {
    return Math.max(1, this.#time.shares.activeWeight / weight)
  }

  /** True when there is no thread, and none is being started: no session is open here. */
  get threadless(): boolean {
    return this.givenUp || this.#restartTimer !== null
  }

  /** The link of the present thread. */
  get link(): WorkerLink {
    return this.#link
  }

  /** Starts the first thread; rejects when it does not come up. */
  start(): Promise<void> {
    this.#started ??= this.#startThread().then(
      () => {
        this.#serving = true
        this.#changed('started')
      },
      (error: Error) => {
        this.givenUp = true
        this.#changed('failed', error.message)
        throw error
      },
    )
    return this.#started
  }

  join(tenant: Tenant): void {
    this.#time.shares.join(tenant, tenant.weight)
  }

  part(tenant: Tenant): void {
    this.#time.shares.part(tenant)
  }

  /** A tenant has work again: offers it a free place when it is its turn. */
  offer(tenant: Tenant): void {
    this.#time.shares.activate(tenant)
    this.pump()
  }

  /** As {@link offer}, but only a batch that is started at once. */
  offerIdle(tenant: Tenant): void {
    this.#time.shares.activate(tenant)
    if (this.#serving && this.outstanding === 0) this.#offerOne(true)
  }

  /** Offers the worker's free places to the tenants that have work, least served first. */
  pump(): void {
    while (this.#serving && this.#time.hasRoom) {
      if (!this.#offerOne(this.outstanding === 0)) return
    }
  }

  #offerOne(idle: boolean): boolean {
    for (let share = this.#time.shares.next(); share !== null; share = this.#time.shares.next()) {
      if (!idle && !this.#time.mayGoAhead(share)) return false
      const offer = share.tenant.offer(idle, idle ? 0 : this.freeInMs)
      if (offer === 'submitted') return true
      // It is this tenant's turn as soon as the worker is free; nobody may be handed ahead of it.
      if (offer === 'waits-for-idle') return false
      this.#time.shares.deactivate(share.tenant)
    }
    return false
  }

  /**
   * Hands a batch over. The slot's messages, if any, are posted before.
   *
   * @param runMs what it is reckoned to take; 0 when nobody knows.
   * @param alone whether nothing else may be on the worker meanwhile.
   */
  submit(tenant: Tenant, slotId: number, layoutIndex: number | null, runMs: number, alone: boolean): void {
    this.#time.given(tenant, slotId, runMs, alone)
    if (layoutIndex !== null) this.#link.control.submit(slotId, layoutIndex)
    this.#source.submitted()
  }

  #completed(slotId: number, times: RunTimestamps): void {
    const tenant = this.#release(slotId, times)
    // Before the results are handed out: the worker should not wait for that.
    this.pump()
    tenant?.completed(slotId, times)
  }

  #done(message: Extract<FromWorker, { type: 'done' }>): void {
    const tenant = this.#release(message.slotId, message.times)
    this.pump()
    tenant?.done(message)
    this.pump()
  }

  /** Looks for finished batches. */
  drain(): void {
    if (this.#time.outstanding === 0) return
    this.#link.drainCompletions()
    this.pump()
  }

  #release(slotId: number, times: RunTimestamps): Tenant | undefined {
    const tenant = this.#time.back(slotId, times.endMs - times.startMs)
    if (tenant !== undefined) this.#failures = 0
    return tenant
  }

  #newLink(): WorkerLink {
    const link: WorkerLink = this.#source.link({
      completed: (slotId, times) => this.#completed(slotId, times),
      done: (message) => this.#done(message),
      died: () => {
        if (link !== this.#link) return
        this.#serving = false
        void this.#source.failure(link).then((reason) => (link === this.#link ? this.#threadLost(reason) : undefined))
      },
    })
    return link
  }

  #startThread(): Promise<void> {
    return (this.#starting = this.#source.start(this.#link).finally(() => (this.#starting = null)))
  }

  #threadLost(reason: string): void {
    this.#changed('lost', reason)
    this.#serving = false
    this.#time.lost()
    for (const tenant of this.#time.shares.tenants) {
      tenant.lost(reason)
      this.#time.shares.activate(tenant)
    }
    if (this.#closing) return
    this.#link = this.#newLink()
    const delayMs = restartDelaysMs[this.#failures++]
    if (delayMs === undefined) return this.#abandon(reason)
    this.#restartTimer = this.#clock.setTimer(() => void this.#restart(), delayMs)
  }

  async #restart(): Promise<void> {
    this.#restartTimer = null
    const link = this.#link
    try {
      await this.#startThread()
    } catch (error) {
      if (link === this.#link) this.#threadLost((error as Error).message)
      return
    }
    await Promise.all(
      this.#time.shares.tenants.map((tenant) =>
        tenant.restore().catch((error: Error) => {
          // When the thread died over it, every tenant has been told already.
          if (link === this.#link) tenant.abandoned(error.message)
        }),
      ),
    )
    if (link !== this.#link || this.#closing) return
    this.#serving = true
    this.#changed('restored')
    this.pump()
  }

  #abandon(reason: string): void {
    this.givenUp = true
    this.#changed('failed', reason)
    this.#link.abandon() // who asks something of it gets an answer
    for (const tenant of this.#time.shares.tenants) tenant.abandoned(reason)
  }

  /**
   * Ends the thread's loop; false when it did not end within `timeoutMs` and is left to itself: a thread inside ONNX
   * Runtime must not be terminated.
   */
  async close(timeoutMs: number): Promise<boolean> {
    this.#closing = true
    if (this.#restartTimer !== null) this.#clock.clearTimer(this.#restartTimer)
    let timer: unknown
    const timedOut = new Promise<boolean>((resolve) => (timer = this.#clock.setTimer(() => resolve(false), timeoutMs)))
    const ended = await Promise.race([this.#endThread(), timedOut])
    this.#clock.clearTimer(timer)
    return ended
  }

  async #endThread(): Promise<boolean> {
    await this.#starting?.catch(() => {})
    const link = this.#link
    const serving = this.#serving
    this.#serving = false
    if (serving) await link.exit()
    else link.abandon()
    // Not before nothing can enter ONNX Runtime any more and nothing is inside may the thread be terminated.
    link.control.stop()
    await link.control.left()
    return true
  }
}
