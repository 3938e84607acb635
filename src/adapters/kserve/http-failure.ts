import { InferenceError, type InferenceErrorCode } from '../../errors.ts'

/** What a client is told that gets no answer. */
export class HttpFailure extends Error {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message)
    this.status = status
    this.headers = headers
  }
}

/** The status of each of the library's errors: Triton's where it has one for it. */
export const statusOfCode: Readonly<Record<InferenceErrorCode, number>> = {
  ERR_INVALID_ARG: 400,
  ERR_MODEL_CONFIG: 400,
  ERR_SEQUENCE_ENDED: 400,
  ERR_IMAGE_DECODE: 400,
  ERR_MODEL_NOT_FOUND: 404,
  ERR_MODEL_IN_USE: 409,
  ERR_MODEL_LOAD: 500,
  ERR_NATIVE_LOAD: 500,
  ERR_PLATFORM: 500,
  ERR_EXECUTION: 500,
  ERR_INSTANCE_CRASHED: 500,
  ERR_LEASE_ENDED: 500,
  ERR_MODEL_NOT_READY: 503,
  ERR_QUEUE_FULL: 503,
  ERR_CLOSED: 503,
  ERR_DISCONNECTED: 503,
  ERR_TIMEOUT: 504,
  ERR_DEADLINE: 504,
}

/** What is told of an error. Of what is none of ours nothing is: it may hold anything. */
export function failureOf(error: unknown): HttpFailure {
  if (error instanceof HttpFailure) return error
  if (!(error instanceof InferenceError))
    return new HttpFailure(500, 'The server failed in an unexpected way.')
  const { code, message, retryAfterMs } = error
  const headers: Record<string, string> =
    retryAfterMs === undefined ? {} : { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) }
  return new HttpFailure(statusOfCode[code], message, headers)
}
