import type { RunTimes } from '../latency/run-times.ts'
import { invalidArgument } from '../errors.ts'
import type { Offer, Tenant } from '../workers/tenant.ts'
import type { Worker } from '../workers/worker.ts'
import type { FromWorker } from '../executor/binding/protocol.ts'
import type { RunTimestamps } from '../executor/executor.ts'
import { elementCount } from '../tensor.ts'
import type { Batch } from './batch.ts'
import type { FinishedBatch } from './finished-batch.ts'
import type { ModelMetadata } from '../metadata.ts'
import type { Padding } from '../request/padding.ts'
import type { InferRequest } from '../request/infer-request.ts'
import type { SchedulerHost } from './scheduler-host.ts'
import type { StagingBuffer } from '../memory/staging-pool.ts'
import { LargeSlots } from './large-slots.ts'
import { StagingSlot } from './staging-slot.ts'

/** What an instance needs from its model. */
export interface InstanceOwner {
  readonly metadata: ModelMetadata
  readonly padding: Padding | null
  readonly unpredictableOutputs: ReadonlySet<number>
  readonly host: SchedulerHost
  readonly times: { readonly runTimes: RunTimes }
  /**
   * The next batch, or `null`; it counts as running until it is finished, failed, crashed or withdrawn.
   * @param startsInMs when a busy instance will be able to start it.
   */
  take(idle: boolean, startsInMs: number): Batch | null
  readonly waiting: number
  /** Every request of a batch was refused: there is nothing to run. */
  withdrawn(): void
  finished(batch: FinishedBatch): void
  failed(batch: Batch, message: string): void
  /** The batch of a request could not be formed; it alone is rejected. */
  refused(request: InferRequest, reason: Error): void
  /** The thread died with these batches in flight. */
  crashed(batches: readonly Batch[], reason: string): void
  /** The instance is lost for good. */
  lost(instance: ModelInstance, reason: string): void
}

/** One batch runs while the next is gathered. */
export const slotsPerInstance = 2

/** An instance of a model: a session on one worker and the staging slots through which it is fed. */
export class ModelInstance implements Tenant {
  /** The model's name and a number, as in Triton. */
  readonly name: string
  readonly worker: Worker
  readonly sessionId: number
  readonly weight: number
  readonly #owner: InstanceOwner
  readonly #slots = new Map<number, StagingSlot>()
  readonly #free: StagingSlot[] = []
  readonly #large: LargeSlots

  constructor(owner: InstanceOwner, name: string, worker: Worker, sessionId: number, weight: number) {
    this.#owner = owner
    this.name = name
    this.weight = weight
    this.worker = worker
    this.sessionId = sessionId
    this.#large = new LargeSlots(owner.host.clock, (slot) => this.#giveBack(slot))
    for (let count = 0; count < slotsPerInstance; count++) {
      const slot = new StagingSlot(owner.host.nextSlotId(), owner.metadata, owner.padding, (byteLength) => owner.host.acquire(byteLength, this))
      this.#slots.set(slot.id, slot)
      this.#free.push(slot)
    }
  }

  offer(idle: boolean, startsInMs: number): Offer {
    const slot = this.#free.at(-1)
    if (slot === undefined) return 'nothing'
    const taken = this.#owner.take(idle, startsInMs)
    if (taken === null) return this.#owner.waiting > 0 && !idle ? 'waits-for-idle' : 'nothing'
    const batch = this.#intact(taken)
    if (batch.requests.length === 0) {
      this.#owner.withdrawn()
      return this.offer(idle, startsInMs)
    }
    this.#free.pop()
    try {
      this.#submit(slot, batch)
    } catch (error) {
      // Memory for the batch could not be had, say: this batch fails, the next may not.
      this.#reuse(slot)
      this.#owner.failed(batch, (error as Error).message)
      return this.offer(idle, startsInMs)
    }
    return 'submitted'
  }

  completed(slotId: number, times: RunTimestamps): void {
    this.#finish(slotId, times, null)
  }

  done({ slotId, times, error, outputs }: Extract<FromWorker, { type: 'done' }>): void {
    if (error === null) return this.#finish(slotId, times, outputs)
    const slot = this.#slots.get(slotId)
    if (slot === undefined) return
    const { batch } = slot
    this.#reuse(slot)
    this.#owner.failed(batch!, error)
    this.worker.offer(this)
  }

  lost(reason: string): void {
    const batches: Batch[] = []
    for (const slot of this.#slots.values()) {
      if (slot.batch !== null) {
        batches.push(slot.batch)
        this.#reuse(slot)
      }
      slot.forgetLayouts()
    }
    this.#owner.crashed(batches, reason)
  }

  restore(): Promise<void> {
    return this.#owner.host.reopen(this)
  }

  abandoned(reason: string): void {
    this.#owner.lost(this, reason)
  }

  /** Outputs turned out to be unpredictable: layouts that reckon with them are of no use any more. */
  forgetLayouts(): void {
    for (const slot of this.#slots.values()) slot.forgetLayouts()
  }

  /** Takes memory that was made ahead for the slots, if any was. */
  adopt(buffers: readonly StagingBuffer[]): void {
    for (const [index, buffer] of buffers.entries()) this.#free[index]!.adopt(buffer)
  }

  /** Gives the staging memory back; no batch may be in flight. */
  release(): void {
    this.#large.close()
    for (const slot of this.#slots.values()) slot.release()
    this.#slots.clear()
    this.#free.length = 0
  }

  /** Leaves out requests whose buffers were detached or resized since they were checked. */
  #intact(batch: Batch): Batch {
    const { requests } = batch
    for (const request of requests) {
      const changed = request.settled ? null : this.#changedInput(request)
      if (changed !== null) this.#owner.refused(request, changed)
    }
    if (!requests.some(({ settled }) => settled)) return batch
    return { ...batch, requests: requests.filter(({ settled }) => !settled) }
  }

  #changedInput({ data, dims, rows }: InferRequest): Error | null {
    const { inputs, maxBatchSize, name: model } = this.#owner.metadata
    for (let index = 0; index < data.length; index++) {
      const { name, shape } = inputs[index]!
      const values = data[index]!
      if (values === null) continue
      const expected = dims !== null ? elementCount(dims[index]!) : this.#fixedElements(shape, maxBatchSize > 0 ? rows : -1)
      const received = values.length
      if (received === expected) continue
      const hint = 'Its buffer was detached or changed after infer() was called; leave it alone until the call settles'
      return invalidArgument(`input '${name}'`, `${expected} elements`, received, { model, hint })
    }
    return null
  }

  #fixedElements(shape: readonly (number | string)[], rows: number): number {
    let count = rows === -1 ? 1 : rows
    for (let axis = rows === -1 ? 0 : 1; axis < shape.length; axis++) count *= shape[axis] as number
    return count
  }

  #submit(slot: StagingSlot, batch: Batch): void {
    const owner = this.#owner
    const { requests } = batch
    slot.takenAtMs = owner.host.clock.nowMs()
    let rows = 0
    let outputMask = 0
    for (const request of requests) {
      request.attempts++
      rows += request.rows
      outputMask |= request.outputMask
    }
    const layout = slot.layoutFor(requests, rows, outputMask, owner.unpredictableOutputs)
    const mailed = slot.gather(requests, layout)
    slot.rows = rows
    slot.batch = batch
    slot.layout = layout
    const { link } = this.worker
    for (const message of slot.announcements(this.sessionId, layout)) link.post(message)
    slot.gatheredAtMs = owner.host.clock.nowMs()
    const runMs = owner.times.runTimes.presentMs(requests[0]!.bucketKey, rows)
    if (mailed === null) return this.worker.submit(this, slot.id, layout.index, runMs, batch.alone)
    link.post({ type: 'run', slotId: slot.id, layoutIndex: layout.index, mailed })
    this.worker.submit(this, slot.id, null, runMs, batch.alone)
  }

  #finish(slotId: number, times: RunTimestamps, mailed: FinishedBatch['mailed']): void {
    const slot = this.#slots.get(slotId)
    if (slot === undefined) return
    const batch = slot.batch!
    const { startMs, inferStartMs, inferEndMs } = times
    const timeline = { takenAtMs: slot.takenAtMs, gatheredAtMs: slot.gatheredAtMs, startMs, inferStartMs, inferEndMs }
    // Field by field: a spread costs more here than all the rest of the way back.
    const { id, requests, reason, alone } = batch
    this.#owner.finished({ id, requests, reason, alone, rows: slot.rows, slot, timeline, instance: this.name, mailed })
    this.#reuse(slot)
    this.worker.offer(this)
  }

  #giveBack(slot: StagingSlot): void {
    slot.release()
    this.worker.link.post({ type: 'forget', slotId: slot.id })
  }

  #reuse(slot: StagingSlot): void {
    this.#large.returned(slot)
    slot.batch = slot.layout = null
    this.#free.push(slot)
  }
}
