import { InferenceError, type InferenceErrorCode } from 'zerohop'
import type { PerfTarget } from './perf-target.ts'
import { sender } from './send.ts'

/** Failures that the request itself is to blame for: all others would be like it. */
const hopeless: readonly InferenceErrorCode[] = ['ERR_INVALID_ARG', 'ERR_EXECUTION']

/** Sends one request, to find out whether it can be answered at all. @throws InferenceError if not, and the signal's reason once it is aborted. */
export async function probe({ model, source }: PerfTarget, signal: AbortSignal): Promise<void> {
  try {
    await sender(model, signal)(source.next(0))
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof InferenceError && hopeless.includes(error.code)) throw error
  }
  for (const { feeds, options } of source.endings?.() ?? [])
    await model.infer(feeds, { ...options, signal }).catch(() => {})
  signal.throwIfAborted()
}
