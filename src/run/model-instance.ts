import type { MailedValue } from '../tensor/values.ts'
import type { RunTimestamps } from './executors/executor.ts'
import { inSlots, type MailedOutputs, type RowFailures, type Batch } from '../schedule/batch.ts'
import type { SlotMemory, StagingBuffer } from '../native/staging-pool.ts'
import type { Worker } from './worker.ts'
import type { WorkerSession } from './worker-session.ts'
import type { Instance } from '../schedule/instance-set.ts'
import type { Scheduler } from '../schedule/scheduler.ts'
import { slotsFor, StagingSlot, type SlotSource } from './staging-slot.ts'
import type { Clock } from '../base/clock.ts'
import type { InstanceStatistics } from '../observe/model-statistics.ts'
import { RunPlace } from './thread-time.ts'

/** A batch that lies in its slot, ready to be run. */
export interface PreparedBatch {
  readonly slotId: number
  readonly preparedAtMs: number
  readonly layoutIndex: number
  /** Inputs that do not lie in the slot. */
  readonly mailed: readonly (MailedValue | null)[] | null
  /** The estimate of its run, in milliseconds; 0 when unknown. */
  readonly runMs: number
  /** The same of a run by the session that was chosen, as far as that is known. */
  readonly inlineMs: number
  /** Whether nothing else may be on the worker meanwhile. */
  readonly isExclusive: boolean
  /** Whether only the worker may run it, not this thread: it may have to be stopped, or this thread has something to do meanwhile. */
  readonly elsewhere: boolean
  /** See `Executor.submit`. */
  readonly onSecond: boolean
  /** See `Executor.runHere`. */
  readonly inHalves: boolean
}

/** Batches of fewer rows are not run in halves: each run costs as much as some rows. */
const leastHalvedRows = 16

/** What a {@link ModelInstance} is made of. */
interface InstanceParts {
  readonly scheduler: Scheduler
  /** The model's name and a number, as in Triton. */
  readonly name: string
  readonly session: WorkerSession
  /** Its share of a worker, relative to those of other instances. */
  readonly weight: number
  /** Where memory for its slots comes from. */
  readonly source: SlotSource
  /** Batches that run at the same time. Default: 1. */
  readonly concurrency?: number | undefined
}

/** An instance of a model: a session on one worker and the staging slots through which it is fed. */
export class ModelInstance implements Instance {
  /** The model's name and a number, as in Triton. */
  readonly name: string
  readonly session: WorkerSession
  readonly worker: Worker
  readonly weight: number
  readonly #scheduler: Scheduler
  readonly source: SlotSource
  readonly #slots = new Map<number, StagingSlot>()
  readonly #free: StagingSlot[] = []
  readonly #large: LargeSlots
  /** Up to which length runs count as short at present, in milliseconds. */
  #shortMs = -0
  /** The slot of the prefetched batch. */
  #ahead: StagingSlot | null = null
  readonly use: InstanceUse
  /** Where its batches run. */
  readonly runPlace = new RunPlace()
  #onDrained: (() => void) | null = null

  constructor({ scheduler, name, session, weight, source, concurrency = 1 }: InstanceParts) {
    this.#scheduler = scheduler
    this.name = name
    this.weight = weight
    this.session = session
    this.worker = session.worker
    this.source = source
    this.#large = new LargeSlots(scheduler.clock, (slot) => this.#giveBack(slot))
    this.use = new InstanceUse(scheduler.clock)
    for (let count = 0; count < slotsFor(concurrency); count++) this.#addSlot()
  }

  /** Whether it would start a batch at once. */
  get idle(): boolean {
    return this.session.ready && this.worker.idle
  }

  get hasWaiting(): boolean {
    return this.#scheduler.hasWaiting
  }

  /** Whether it may be chosen where its batches run: it is the only one of its model. */
  get mayBePlaced(): boolean {
    const { instances, times } = this.#scheduler
    return instances.size === 1 && !times.hasQueueDelay
  }

  get nextIsAlone(): boolean {
    return this.#scheduler.nextIsAlone
  }

  get prefetchedElsewhere(): boolean {
    return this.#scheduler.instances.anyPrefetched
  }

  offer(): void {
    this.worker.offer(this)
  }

  /** See {@link Scheduler.chooseRows}; `mostMs` is also kept for the next batch. */
  chooseRows(mostMs: number, idle: boolean): void {
    this.#shortMs = mostMs
    if (!this.#scheduler.hasWaiting) return
    const besideRows = this.runPlace.present === 'elsewhere' ? this.#givenRows : Infinity
    this.#scheduler.chooseRows(mostMs, besideRows, idle)
  }

  nextBatch(idle: boolean, startsInMs: number): PreparedBatch | 'when idle' | null {
    if (!this.session.ready) return null
    for (;;) {
      const slot = this.#free.at(-1)
      if (slot === undefined) return this.#scheduler.hasWaiting ? 'when idle' : null // it is asked again once the results of its last run are scattered
      const batch = this.#scheduler.nextBatch(idle, startsInMs)
      if (batch === null) return this.#scheduler.hasWaiting && !idle ? 'when idle' : null
      this.#free.pop()
      try {
        return this.#prepare(slot, batch, idle)
      } catch (error) {
        // Memory for the batch could not be had, say: this batch fails, the next may not.
        this.#reuse(slot)
        if (batch.ahead) this.#scheduler.started(batch)
        this.#scheduler.failed(batch, (error as Error).message)
      }
    }
  }

  /** The prefetched batch; `null` for none. */
  get prefetchedBatch(): Batch | null {
    return this.#ahead === null ? null : this.#ahead.batch
  }

  /** Revokes the prefetched batch; false when there is none, or it has started. */
  revokePrefetched(): boolean {
    const slot = this.#ahead
    if (slot === null || this.worker.revoke(slot.id)) return slot !== null
    this.started(slot.id) // the worker has claimed it
    return false
  }

  /** Batches that it was given and are not back. */
  get batches(): Batch[] {
    return [...this.#slots.values()].flatMap(({ batch }) => batch ?? [])
  }

  /** Since when it has had nothing to do; `null` while it has. */
  get idleSinceMs(): number | null {
    return this.batches.length === 0 ? this.use.usedAtMs : null
  }

  /** For how long it has been busy so far, in milliseconds. */
  get busyMs(): number {
    return this.use.busyMs(this.idleSinceMs === null)
  }

  /** Resolves when it has no batch. */
  drained(): Promise<void> {
    return this.batches.length === 0
      ? Promise.resolve()
      : new Promise((resolve) => (this.#onDrained = resolve))
  }

  /** Has the run of a batch stopped, if it is here. See {@link Worker.stopRun}. */
  stopRun(batch: Batch, orDetach: boolean): void {
    for (const slot of this.#slots.values()) if (slot.batch === batch) this.worker.stopRun(slot.id, orDetach)
  }

  started(slotId: number): void {
    const slot = this.#slots.get(slotId)!
    if (slot !== this.#ahead) return
    this.#ahead = null
    this.#scheduler.started(slot.batch!)
  }

  revoked(slotId: number, threadEnded: boolean): void {
    this.#scheduler.revoked(this.#release(slotId), threadEnded)
  }

  finished(
    slotId: number,
    { startMs, inferStartMs, inferEndMs, inline = false }: RunTimestamps,
    mailed: MailedOutputs | null,
    failures: RowFailures | null,
  ): void {
    const slot = this.#slots.get(slotId)!
    this.use.ran(startMs, inferEndMs, slot.rows - slot.emptyRows)
    if (slot.runKind !== null) this.session.threadChoice?.ran(slot, inferEndMs - inferStartMs)
    this.#scheduler.instances.rowBlocks?.ran(slot)
    const timeline = {
      takenAtMs: slot.batch!.takenAtMs,
      gatheredAtMs: slot.gatheredAtMs,
      startMs,
      inferStartMs,
      inferEndMs,
    }
    this.#scheduler.times.runPlace = this.mayBePlaced ? this.runPlace.present : null
    // Field by field: a spread costs more here than all the rest of the way back.
    const { id, reason, isRerun, place } = slot.batch!
    this.#scheduler.finished({
      id,
      requests: slot.requests,
      reason,
      isRerun,
      place,
      rows: slot.rows,
      slot,
      timeline,
      inline,
      isUnusual: slot.isUnusual,
      instance: this.name,
      mailed,
      failures,
    })
    this.#release(slotId)
    if (this.session.keepsArena) this.session.ran()
    this.#askForMore()
  }

  failed(slotId: number, message: string, stillRuns: Promise<void> | null, tookMs: number): void {
    this.use.failed(tookMs)
    // It may have failed for want of memory that the worker could not get for the slot, and tries again for a slot that it is notified of anew.
    this.#slots.get(slotId)!.forgetLayouts()
    this.#scheduler.failed(
      stillRuns === null ? this.#release(slotId) : this.#replace(slotId, stillRuns),
      message,
    )
    this.#askForMore()
  }

  lost(slotId: number, reason: string, stillRuns: Promise<void> | null, tookMs: number): void {
    this.started(slotId)
    this.use.failed(tookMs)
    this.#scheduler.lost(
      stillRuns === null ? this.#release(slotId) : this.#replace(slotId, stillRuns),
      reason,
      stillRuns === null,
    )
  }

  /** Forgets what the worker knows: for a new thread, or when an output has another size than its layouts say. */
  forgetLayouts(): void {
    for (const slot of this.#slots.values()) slot.forgetLayouts()
  }

  /** Takes memory that was made ahead for the slots, if any was. */
  adopt(buffers: readonly StagingBuffer[]): void {
    for (const [index, buffer] of buffers.entries()) this.#free[index]!.adopt(buffer)
  }

  forgetMemory(memory: SlotMemory): void {
    for (const slot of this.#slots.values()) slot.forgetMemory(memory, this.worker.threads.executor)
  }

  /** Gives the staging memory back; no batch may be in flight. */
  release(): void {
    this.#large.close()
    for (const slot of this.#slots.values()) slot.release()
    this.#slots.clear()
    this.#free.length = 0
  }

  #prepare(slot: StagingSlot, batch: Batch, idle: boolean): PreparedBatch {
    const scheduler = this.#scheduler
    const requests = batch.requests[0]!.turn === null ? batch.requests : inSlots(batch.requests)
    this.use.usedAtMs = batch.takenAtMs
    let [rows, outputMask] = [0, 0]
    for (const request of requests) {
      request.attempts++
      rows += request.rows
      outputMask |= request.outputMask
    }
    const layout = slot.layoutFor(
      requests,
      rows,
      outputMask,
      requests[0]!.whole ? scheduler.unpredictable.whole : scheduler.unpredictable.joined,
      scheduler.instances.rowBlocks,
    )
    const mailed = slot.gather(requests, layout)
    slot.rows = rows
    ;(slot.batch = batch).place = this
    if (batch.ahead) this.#ahead = slot
    slot.announce(this.worker.threads.executor, this.session.id, layout)
    this.worker.threads.executor.runsFor?.(slot.id, scheduler.observed.askerOf(batch))
    slot.gatheredAtMs = scheduler.clock.nowMs()
    const runMs = scheduler.times.runTimes.of(requests[0]!.bucketKey).presentMs(rows)
    const isLone = idle && requests.length === 1 && !scheduler.hasWaiting
    const { threadChoice, halvedOn } = this.session
    const inHalves = halvedOn !== null && this.#choosesHalves(slot, runMs)
    if (inHalves) slot.onSecond = halvedOn === 'second'
    else if (threadChoice?.secondFor === 'short runs' || (isLone && this.worker.othersIdle))
      threadChoice?.choose(slot, isLone)
    return {
      slotId: slot.id,
      preparedAtMs: slot.gatheredAtMs,
      layoutIndex: layout.index,
      mailed,
      runMs,
      inlineMs: slot.sessionMs || runMs,
      isExclusive: batch.isExclusive,
      elsewhere: batch.limited || scheduler.times.divides,
      onSecond: slot.onSecond,
      inHalves,
    }
  }

  /** Whether the worker runs half of the batch in a slot, while this thread runs the other half. */
  #choosesHalves({ batch, requests, rows, layout }: StagingSlot, runMs: number): boolean {
    const isPossible =
      layout!.isByRow &&
      rows >= leastHalvedRows &&
      rows === requests.length && // rows of one request are not parted: perhaps only the user says that they do not depend on each other
      batch!.requests[0]!.turn === null // in batches of sequences a row's place means something
    const rowMs = runMs / rows
    const fitsOneRun = (this.#scheduler.waiting + this.#givenRows) * rowMs <= this.#shortMs
    return this.runPlace.choosesHalves(isPossible, fitsOneRun, rowMs)
  }

  /** Rows of all batches that it was given and are not back. */
  get #givenRows(): number {
    let given = 0
    for (const { batch, rows } of this.#slots.values()) if (batch !== null) given += rows
    return given
  }

  #addSlot(): void {
    const slot = new StagingSlot(this.source, this.#scheduler.metadata, this.#scheduler.padding)
    this.#slots.set(slot.id, slot)
    this.#free.push(slot)
  }

  /** A new slot takes the place of one whose run goes on: its memory is given back when that is over. */
  #replace(slotId: number, stillRuns: Promise<void>): Batch {
    const slot = this.#slots.get(slotId)!
    this.#slots.delete(slotId)
    this.#large.forget(slot)
    void stillRuns.then(() => {
      slot.end()
      slot.release()
      this.source.trim()
    })
    this.#addSlot()
    this.#tellDrained()
    return slot.batch!
  }

  #release(slotId: number): Batch {
    const slot = this.#slots.get(slotId)!
    const batch = slot.batch!
    this.#reuse(slot)
    return batch
  }

  /** What waits may not have been taken for want of a slot, and what waits behind another instance is taken from there. */
  #askForMore(): void {
    if (this.#scheduler.hasWaiting || this.prefetchedElsewhere) this.offer()
  }

  #giveBack(slot: StagingSlot): void {
    slot.release()
    this.worker.threads.executor.forgetSlot(slot.id)
  }

  #reuse(slot: StagingSlot): void {
    if (slot === this.#ahead) this.#ahead = null
    this.#large.returned(slot)
    slot.end()
    this.#free.push(slot)
    if (this.#onDrained !== null) this.#tellDrained()
  }

  #tellDrained(): void {
    if (this.batches.length === 0) this.#onDrained?.()
  }
}

/** How long memory is kept that no batch needs, in milliseconds. Taking it again costs tens of them at most. */
const keptMs = 2000

/**
 * The slots of an instance that have grown large. What one big request needed goes back when no other has needed it for
 * a while, whether small ones keep coming or not; a slot in steady use is left alone. Without large slots there is no timer.
 */
export class LargeSlots {
  readonly #clock: Clock
  readonly #giveBack: (slot: StagingSlot) => void
  readonly #neededAtMs = new Map<StagingSlot, number>()
  #timer: unknown = null

  constructor(clock: Clock, giveBack: (slot: StagingSlot) => void) {
    this.#clock = clock
    this.#giveBack = giveBack
  }

  /** A batch, still in `slot`, is done with it. */
  returned(slot: StagingSlot): void {
    if (!slot.large) return
    if (slot.neededLarge || !this.#neededAtMs.has(slot)) this.#neededAtMs.set(slot, this.#clock.nowMs())
    this.#timer ??= this.#clock.setTimer(this.#look, keptMs)
  }

  /** A slot is of no use any more. */
  forget(slot: StagingSlot): void {
    this.#neededAtMs.delete(slot)
  }

  /** Looks no more. */
  close(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
    this.#neededAtMs.clear()
  }

  readonly #look = (): void => {
    this.#timer = null
    const nowMs = this.#clock.nowMs()
    let nextMs = Infinity
    for (const [slot, neededAtMs] of this.#neededAtMs) {
      const leftMs = neededAtMs + keptMs - nowMs
      if (slot.batch === null && leftMs <= 0) this.#giveBack(slot)
      if (!slot.large) this.#neededAtMs.delete(slot)
      // A slot in use is looked at again after a whole while: it has been needed, or small batches come and go.
      else nextMs = Math.min(nextMs, leftMs > 0 ? leftMs : keptMs)
    }
    if (nextMs !== Infinity) this.#timer = this.#clock.setTimer(this.#look, nextMs)
  }
}

/** What an instance has been used for, since it began to serve. */
export class InstanceUse {
  readonly #clock: Clock
  readonly #sinceMs: number
  #ranMs = 0
  #runs = 0
  /** Of all runs that gave results. */
  rows = 0
  /** When it was last given something, or was done with it. */
  usedAtMs: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#sinceMs = this.usedAtMs = clock.nowMs()
  }

  /** A run has ended, with results for so many rows. */
  ran(startMs: number, endMs: number, rows: number): void {
    this.usedAtMs = endMs
    this.#ranMs += endMs - startMs
    this.#runs++
    this.rows += rows
  }

  /** A run has ended without results. */
  failed(tookMs: number): void {
    this.#ranMs += tookMs
    this.#runs++
  }

  /** For how long it has been busy so far, in milliseconds; `busy` while it has something to do. */
  busyMs(busy: boolean): number {
    return this.#ranMs + (busy ? this.#clock.nowMs() - this.usedAtMs : 0)
  }

  statistics(name: string, worker: string): InstanceStatistics {
    const busyMs = this.#ranMs
    const servingMs = this.#clock.nowMs() - this.#sinceMs
    return {
      name,
      worker,
      runs: this.#runs,
      rows: this.rows,
      busyMs,
      servingMs,
      busyShare: Math.min(1, busyMs / Math.max(servingMs, 1e-3)),
    }
  }
}
