import { InferenceError, type InferenceErrorCode } from '../errors.ts'

export const rejectionReasons = [
  'queueFull', 'timeout', 'deadline', 'cancelled', 'closed', 'crashed', 'execution', 'changed', 'sequenceEnded', 'imageDecode', 'invalid', 'notReady',
] as const // prettier-ignore

/** Why accepted requests were not answered, and why requests found no place or no time. */
export type RejectionReason = (typeof rejectionReasons)[number]

export const refusalReasons = [
  'invalid', 'cancelled', 'closed', 'notReady', 'sequenceEnded', 'timeout', 'deadline', 'leaseEnded', 'imageDecode', 'other',
] as const // prettier-ignore

/** Why requests were refused before they were accepted. */
export type RefusalReason = (typeof refusalReasons)[number]

/** How a request counts that ended with an error: one that was accepted, or found no place or no time; and one that was refused before. */
const reasonsByCode: Readonly<Record<InferenceErrorCode, readonly [RejectionReason, RefusalReason]>> = {
  ERR_QUEUE_FULL: ['queueFull', 'other'],
  ERR_TIMEOUT: ['timeout', 'timeout'],
  ERR_DEADLINE: ['deadline', 'deadline'],
  ERR_CLOSED: ['closed', 'closed'],
  ERR_INSTANCE_CRASHED: ['crashed', 'other'],
  ERR_SEQUENCE_ENDED: ['sequenceEnded', 'sequenceEnded'],
  ERR_IMAGE_DECODE: ['imageDecode', 'imageDecode'],
  ERR_INVALID_ARG: ['invalid', 'invalid'],
  ERR_MODEL_NOT_READY: ['notReady', 'notReady'],
  ERR_MODEL_NOT_FOUND: ['notReady', 'other'],
  ERR_MODEL_CONFIG: ['execution', 'other'],
  ERR_MODEL_LOAD: ['execution', 'other'],
  ERR_MODEL_IN_USE: ['execution', 'other'],
  ERR_EXECUTION: ['execution', 'other'],
  ERR_NATIVE_LOAD: ['execution', 'other'],
  ERR_PLATFORM: ['execution', 'other'],
  ERR_DISCONNECTED: ['execution', 'other'],
  ERR_LEASE_ENDED: ['execution', 'leaseEnded'],
}

/** The reason under which a rejection counts that its caller did not ask for. */
export function rejectionOf(error: unknown): RejectionReason {
  return reasonsOf(error)?.[0] ?? 'execution'
}

/**
 * The reason under which a refusal counts.
 *
 * @param signal of the request: only what is its reason was meant by the caller.
 */
export function refusalOf(error: unknown, signal: AbortSignal | undefined): RefusalReason {
  if (signal?.aborted && error === signal.reason) return 'cancelled'
  return reasonsOf(error)?.[1] ?? 'other'
}

/** `undefined` for an error that is none of this library, or that a caller has made with another code. */
function reasonsOf(error: unknown): readonly [RejectionReason, RefusalReason] | undefined {
  return error instanceof InferenceError && Object.hasOwn(reasonsByCode, error.code)
    ? reasonsByCode[error.code]
    : undefined
}

/** A count of 0 for each reason. */
export function noneOf<Reason extends string>(reasons: readonly Reason[]): Record<Reason, number> {
  return Object.fromEntries(reasons.map((reason) => [reason, 0])) as Record<Reason, number>
}
