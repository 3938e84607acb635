import type { RowFailures, RunTimestamps, SlotLayout } from '../executor.ts'
import type { MailedValue } from '../../../tensor/values.ts'
import { messageOf } from '../../../base/message-of.ts'
import type { OpenFunction } from './open-function.ts'
import { slotInputs } from './read-inputs.ts'
import type { RunContext } from './run-context.ts'
import { writeOutputs, type SentOutputs } from './write-outputs.ts'

/** A slot of staging memory, as whoever runs a function sees it. */
export interface FunctionSlot {
  readonly bytes: SharedArrayBuffer
  readonly layouts: SlotLayout[]
  /** Inputs of its next batch that do not lie in it. */
  mailed: readonly (MailedValue | null)[] | null
}

/** What has come of a batch. */
export interface BatchOutcome {
  readonly error: string | null
  /** Outputs that do not lie in the slot; `null` when all do. */
  readonly sent: SentOutputs | null
  readonly failures: RowFailures | null
}

/** Tells of a run, and what time it is. */
export interface RunWatch {
  nowMs(): number
  begins(context: RunContext): void
}

const failed = (reason: unknown): BatchOutcome => ({ error: messageOf(reason), sent: null, failures: null })

/**
 * Calls a function with the batch that lies in a slot, and writes what it gives there. Never throws or rejects.
 *
 * @param times are filled in.
 * @returns at once where the function does.
 */
export function runBatch(
  open: OpenFunction | null,
  slot: FunctionSlot | undefined,
  layoutIndex: number,
  times: RunTimestamps,
  watch: RunWatch,
): BatchOutcome | Promise<BatchOutcome> {
  times.startMs = times.inferStartMs = watch.nowMs()
  const outcome = call(open, slot, layoutIndex, times, watch)
  if (outcome instanceof Promise) return outcome.then((settled) => ended(settled, times, watch))
  return ended(outcome, times, watch)
}

function call(
  open: OpenFunction | null,
  slot: FunctionSlot | undefined,
  layoutIndex: number,
  times: RunTimestamps,
  watch: RunWatch,
): BatchOutcome | Promise<BatchOutcome> {
  try {
    const layout = slot?.layouts[layoutIndex]
    if (open === null || slot === undefined || layout === undefined)
      throw new Error('The function or the slot of its batch was closed.')
    const inputs = slotInputs(open, layout, slot.bytes, slot.mailed)
    slot.mailed = null
    const context = open.contextOf(inputs)
    watch.begins(context)
    times.inferStartMs = watch.nowMs()
    const finish = (given: unknown): BatchOutcome => {
      times.inferEndMs = watch.nowMs()
      if (context.isLeft) throw new Error('what it gave came too late')
      const { rows, failed: isFailed } = context
      if (context.failures?.length === rows) return { error: null, sent: null, failures: context.failures }
      const sent = writeOutputs(open.outputs, layout, slot.bytes, given, {
        rows,
        failed: isFailed,
        batched: open.batched,
      })
      return { error: null, sent, failures: context.failures }
    }
    const given = open.call(inputs, context)
    return isThenable(given) ? Promise.resolve(given).then(finish).catch(failed) : finish(given)
  } catch (reason) {
    return failed(reason)
  }
}

function ended(outcome: BatchOutcome, times: RunTimestamps, watch: RunWatch): BatchOutcome {
  times.endMs = watch.nowMs()
  if (outcome.error !== null) times.inferEndMs = times.endMs
  return outcome
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
  )
}
