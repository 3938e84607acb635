import { InferenceError } from '../errors.ts'

/** The error of what was in flight when the serving process went, or was asked when it had gone. */
export function disconnected(path: string, reason: string): InferenceError {
  const message = `The process that serves at ${path} has gone: ${reason}. Whether it has run the request is not known; the next call connects again.`
  return new InferenceError('ERR_DISCONNECTED', message, { name: 'path', received: path })
}

/** The error of a request too many. */
export function tooMany(model: string, maxRequests: number, path: string): InferenceError {
  const message = `Model '${model}': ${maxRequests} requests of this process are in flight at ${path}, which are all that it may have (maxRequests of serve).`
  return new InferenceError('ERR_QUEUE_FULL', message, { model, expected: `fewer than ${maxRequests} in flight`, received: maxRequests })
}
