import { InferenceError } from '../../errors.ts'
import type { CallLimit } from './call-options.ts'

/** The error of what was in flight when the serving process went, or was asked when it had gone. */
export function disconnected(path: string, reason: string): InferenceError {
  const message = `The process that serves at ${path} has gone: ${reason}. Whether it has run the request is not known; the next call connects again.`
  return new InferenceError('ERR_DISCONNECTED', message, { name: 'path', received: path })
}

/** The error of a request too many or, without a model, of another call. */
export function tooMany(model: string | null, most: number, path: string): InferenceError {
  const [what, limit] =
    model === null ? [`${most} calls`, ''] : [`Model '${model}': ${most} requests`, ' (maxRequests of serve)']
  const message = `${what} of this process are in flight at ${path}, which are all that it may have${limit}.`
  return new InferenceError('ERR_QUEUE_FULL', message, {
    ...(model !== null && { model }),
    expected: `fewer than ${most} in flight`,
    received: most,
  })
}

/** Of a serving process that takes too long to greet. */
export function notAnswering(timeoutMs: number): Error {
  return new Error(
    `it does not answer within ${Math.round(timeoutMs)} ms; it may be suspended or busy, and have more time by timeoutMs`,
  )
}

/** The error of a request whose limit has passed while nothing is heard of the serving process. */
export function tooSilent(model: string, { name, ms }: CallLimit, path: string): InferenceError {
  const message = `Model '${model}': nothing was heard of the process that serves at ${path} within ${ms} ms (${name}). It may be stopped or held up; the request is withdrawn.`
  return new InferenceError(name === 'timeoutMs' ? 'ERR_TIMEOUT' : 'ERR_DEADLINE', message, {
    model,
    expected: `an answer within ${ms} ms`,
  })
}
