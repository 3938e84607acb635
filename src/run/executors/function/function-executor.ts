import { functionCarrier } from '../../../tensor/metadata.ts'
import type { FunctionSource } from '../../../options/model-source.ts'
import type { OpenOptions } from '../../../options/session-options.ts'
import type { OpenedSession, RunTimestamps, ExecutorEvents } from '../executor.ts'
import type { MailedOutputs, RowFailures } from '../../../schedule/batch.ts'
import { BindingExecutor, type CompletionLoop } from '../binding/binding-executor.ts'
import type { WorkerSetup } from '../protocol.ts'

/** How long `teardown` may take, in milliseconds; the thread is ended then. */
const teardownLimitMs = 2000
const defaultStartTimeoutMs = 60_000

/**
 * The application's end of a thread that runs one function. It speaks as the binding's does. Unlike that thread, this one may be
 * ended at any time, and is: a run that has to stop has no other way.
 */
export class FunctionExecutor extends BindingExecutor {
  readonly concurrency: number
  readonly #function: FunctionSource
  /** Slots whose runs were to end with the thread. */
  readonly #stopped = new Set<number>()
  /** Of the batch that was last submitted in each slot. */
  readonly #numbers = new Map<number, number>()
  #end: (() => Promise<void>) | null = null
  /** Whether the thread was ended for what a run did, and not by itself. */
  #ended = false
  #gone = false

  constructor(completions: CompletionLoop, events: ExecutorEvents, source: FunctionSource) {
    super(completions, events, source.concurrency)
    this.concurrency = source.concurrency
    this.#function = source
  }

  override setup(): ReturnType<BindingExecutor['setup']> {
    const { setup, transferList } = super.setup()
    return {
      setup: { ...setup, kind: 'function', concurrency: this.concurrency } as WorkerSetup,
      transferList,
    }
  }

  /** The thread has been started. */
  started(end: () => Promise<void>): void {
    this.#end = end
  }

  override async open(
    sessionId: number,
    model: string | SharedArrayBuffer,
    options: OpenOptions,
  ): Promise<OpenedSession> {
    const limitMs = this.#function.workers.startTimeoutMs ?? defaultStartTimeoutMs
    const opened = await this.#within(
      limitMs,
      super.open(sessionId, model, options),
      `its module and setup() took more than ${limitMs} ms (workers.startTimeoutMs)`,
    )
    return { ...opened, carrier: functionCarrier }
  }

  override async close(sessionId: number): Promise<void> {
    await this.#within(teardownLimitMs, super.close(sessionId), 'teardown() took too long').catch(() => {})
  }

  /** Ends the thread over a run that has to end. Else the function's signal is aborted. */
  override cancel(slotId: number, mustEnd: boolean): boolean {
    if (!mustEnd) {
      this.post({ type: 'unwanted', batch: this.#numbers.get(slotId)! })
      return false
    }
    this.#stopped.add(slotId)
    this.#terminate()
    return true
  }

  /** Ends the thread over what is being opened or tried there. */
  override cancelWork(): boolean {
    this.#terminate()
    return true
  }

  /** Others that ran on a thread that was ended over one run have done nothing wrong: they are as if they had not started. */
  override revoke(slotId: number): boolean {
    return super.revoke(slotId) || (this.#gone && this.#ended && !this.#stopped.has(slotId))
  }

  override exit(): Promise<void> {
    const exited = super.exit()
    return this.#within(teardownLimitMs, exited, '').catch(() => exited)
  }

  protected override submitted(slotId: number, number: number): void {
    this.#numbers.set(slotId, number)
  }

  protected override finished(
    slotId: number,
    times: Readonly<RunTimestamps>,
    error: string | null,
    mailed: MailedOutputs | null,
    failures?: RowFailures | null,
  ): void {
    this.#stopped.delete(slotId)
    super.finished(slotId, times, error, mailed, failures)
  }

  protected override died(): void {
    const nowMs = performance.now()
    for (const slotId of this.#stopped) {
      super.finished(
        slotId,
        { startMs: nowMs, inferStartMs: nowMs, inferEndMs: nowMs, endMs: nowMs },
        'its thread was ended, because it did not stop',
        null,
      )
    }
    this.#gone = true
    super.died()
  }

  #terminate(): void {
    this.#ended = true
    void this.#end?.()
  }

  /** Ends the thread over what takes longer than it may. */
  async #within<T>(limitMs: number, work: Promise<T>, message: string): Promise<T> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new Error(message))
        this.#terminate()
      }, limitMs)
    })
    try {
      return await Promise.race([work, late])
    } finally {
      clearTimeout(timer)
      work.catch(() => {})
    }
  }
}
