import { InferenceError } from '../errors.ts'

/**
 * Rejects the promise that a caller was given. One that has timed out is rejected from within the queue, where no frame is its
 * caller's: its error gets the stack of the async functions that await the call, as far as V8 knows them. It costs some
 * microseconds, and only those that time out.
 *
 * @param resolve of the same promise.
 */
export function rejectCaller(
  reason: unknown,
  resolve: (answer: never) => void,
  reject: (reason: unknown) => void,
): void {
  if (reason instanceof InferenceError && reason.code === 'ERR_TIMEOUT')
    resolve(thrownToCaller(reason) as never)
  else reject(reason)
}

/** Rejects with an error as if it were thrown where the promise that this one resolves is awaited. */
async function thrownToCaller(error: InferenceError): Promise<never> {
  const turn = Promise.resolve()
  await turn
  await turn // only now that promise waits for this one, and V8 finds from here who waits for that
  Error.captureStackTrace(error, thrownToCaller)
  throw error
}
