import { InferenceError, type InferenceErrorCode } from '../index.ts'
import type { PerfTarget } from './perf-target.ts'
import { sender } from './send.ts'

/** Failures that the request itself is to blame for: all others would be like it. */
const hopeless: readonly InferenceErrorCode[] = ['ERR_INVALID_ARG', 'ERR_EXECUTION']

/** Sends one request, to find out whether it can be answered at all. @throws InferenceError if not. */
export async function probe({ model, source }: PerfTarget): Promise<void> {
  try {
    await sender(model, null)(source.next(0))
  } catch (error) {
    if (error instanceof InferenceError && hopeless.includes(error.code)) throw error
  }
  for (const { feeds, options } of source.endings?.() ?? []) await model.infer(feeds, options).catch(() => {})
}
