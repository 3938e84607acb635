import { nextTurn } from '../../../base/clock.ts'
import { outsideContext, runScope, type RunScope } from '../../../base/async-context.ts'
import { functionCarrier } from '../../../tensor/metadata.ts'
import type { OpenOptions } from '../../../options/session-options.ts'
import { messageOf } from '../../../base/message-of.ts'
import {
  OpenFunction,
  runBatch,
  type BatchOutcome,
  type FunctionSlot,
  type RunContext,
  callOnSample,
} from './run-function.ts'
import type { SlotMemory } from '../../../native/staging-pool.ts'
import type { MailedValue } from '../../../tensor/values.ts'
import type {
  Executor,
  ExecutorEvents,
  OpenedSession,
  RunTimestamps,
  SampleRun,
  SlotLayout,
} from '../executor.ts'

/** How long batches may be run at a stretch before the event loop gets a turn, in milliseconds. */
const stretchMs = 0.5

interface DispatchedBatch {
  readonly slotId: number
  readonly layoutIndex: number
}

interface Run {
  context: RunContext | null
  /** Of one that has promised something. */
  ended: Promise<void> | null
  /** The observed request it is for; `undefined` where no observer watches. */
  readonly scope: RunScope | undefined
}

/** Runs a function on the application's thread: for what takes less than its dispatch to another one. */
export class ApplicationExecutor implements Executor {
  readonly concurrency: number
  readonly #events: ExecutorEvents
  readonly #slots = new Map<number, FunctionSlot>()
  #waiting: DispatchedBatch[] = []
  /** Of batches that do not run yet, by slot. */
  readonly #askers = new Map<number, object>()
  /** What runs, by slot. */
  readonly #running = new Map<number, Run>()
  #function: OpenFunction | null = null
  #scheduled = false
  #stretchEndsAtMs = 0

  constructor(events: ExecutorEvents, concurrency: number) {
    this.#events = events
    this.concurrency = concurrency
  }

  async open(
    _sessionId: number,
    model: string | SharedArrayBuffer,
    options: OpenOptions,
  ): Promise<OpenedSession> {
    const source = options.function!
    this.#function = await OpenFunction.open(model as string, source)
    return { inputs: [...source.inputs], outputs: [...source.outputs], carrier: functionCarrier }
  }

  async runSample(
    _sessionId: number,
    feeds: readonly (MailedValue | null)[],
    wantsOutputs: boolean,
  ): Promise<SampleRun> {
    try {
      return (await callOnSample(this.#function!, feeds, wantsOutputs)).run
    } catch (reason) {
      return { error: messageOf(reason), runMs: 0, outputs: [] }
    }
  }

  async close(): Promise<void> {
    const open = this.#function
    this.#function = null
    this.#slots.clear()
    await open?.teardown()
  }

  defineSlot(slotId: number, _sessionId: number, memory: SlotMemory): void {
    if (memory.kind !== 'shared') throw new Error('functions see shared memory only')
    this.#slots.set(slotId, { bytes: memory.buffer, layouts: [], mailed: null })
  }

  forgetSlot(slotId: number): void {
    this.#slots.delete(slotId)
    this.#askers.delete(slotId)
  }

  defineLayout(slotId: number, layoutIndex: number, layout: SlotLayout): void {
    this.#slots.get(slotId)!.layouts[layoutIndex] = layout
  }

  runsFor(slotId: number, asker: object | null): void {
    if (asker !== null) this.#askers.set(slotId, asker)
    else if (this.#askers.size > 0) this.#askers.delete(slotId)
  }

  /** Begins it once its dispatch is done. */
  submit(slotId: number, layoutIndex: number, mailed: readonly (MailedValue | null)[] | null): void {
    this.#slots.get(slotId)!.mailed = mailed
    this.#waiting.push({ slotId, layoutIndex })
    this.#schedule()
  }

  revoke(slotId: number): boolean {
    const before = this.#waiting.length
    this.#waiting = this.#waiting.filter((batch) => batch.slotId !== slotId)
    return this.#waiting.length < before
  }

  /** What it has promised is not waited for any more; it cannot be stopped, and keeps its slot, which it may still read. */
  cancel(slotId: number, mustEnd: boolean): boolean {
    const run = this.#running.get(slotId)
    if (run === undefined) return false
    run.context?.unwanted()
    if (!mustEnd) return false
    if (run.context !== null) run.context.isDetached = true
    this.#slots.delete(slotId)
    const times = { ...timesAt(performance.now()), ...(run.ended !== null && { stillRuns: run.ended }) }
    queueMicrotask(() =>
      this.#report(slotId, run, times, { error: 'it did not end in time', sent: null, failures: null }),
    )
    return true
  }

  cancelWork(): boolean {
    return false
  }

  drainCompletions(): void {}

  async exit(): Promise<void> {}

  abandon(): void {}

  async stop(): Promise<void> {}

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    if (this.#stretchEndsAtMs === 0) {
      this.#stretchEndsAtMs = performance.now() + stretchMs
      nextTurn(() => (this.#stretchEndsAtMs = 0))
    }
    if (performance.now() < this.#stretchEndsAtMs) queueMicrotask(this.#runWaiting)
    else nextTurn(this.#runWaiting)
  }

  readonly #runWaiting = (): void => {
    this.#scheduled = false
    if (this.#running.size >= this.concurrency) return
    const next = this.#waiting.shift()
    if (next !== undefined) outsideContext(() => this.#run(next)) // a batch is of many callers: what a function begins is in the context of none of them
    if (this.#waiting.length > 0 && this.#running.size < this.concurrency) this.#schedule()
  }

  #run({ slotId, layoutIndex }: DispatchedBatch): void {
    const asker = this.#askers.get(slotId)
    const run: Run = { context: null, ended: null, scope: asker && { asker, isOver: false } }
    this.#running.set(slotId, run)
    const times = timesAt(0)
    const begin = () =>
      runBatch(this.#function, this.#slots.get(slotId), layoutIndex, times, {
        nowMs: () => performance.now(),
        begins: (context) => (run.context = context),
      })
    // It may have been dispatched within another run.
    const outcome =
      run.scope === undefined && runScope.getStore() === undefined ? begin() : runScope.run(run.scope, begin)
    if (outcome instanceof Promise)
      run.ended = outcome.then((settled) => this.#report(slotId, run, times, settled))
    else this.#report(slotId, run, times, outcome)
  }

  #report(slotId: number, run: Run, times: RunTimestamps, { error, sent, failures }: BatchOutcome): void {
    if (run.scope !== undefined) run.scope.isOver = true
    if (this.#running.get(slotId) !== run) return // it was not waited for
    this.#running.delete(slotId)
    this.#events.finished(slotId, times, error, sent?.outputs ?? null, failures)
    if (this.#waiting.length > 0) this.#schedule()
  }
}

function timesAt(ms: number): RunTimestamps {
  return { startMs: ms, inferStartMs: ms, inferEndMs: ms, endMs: ms, inline: true }
}
