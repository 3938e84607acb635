import { InferenceError, type InferenceErrorCode } from '../errors.ts'

/** Why accepted requests were not answered, and why requests found no place or no time. */
export type RejectionReason =
  | 'queueFull' | 'timeout' | 'deadline' | 'cancelled' | 'closed' | 'crashed' | 'execution' | 'changed' | 'sequenceEnded' | 'imageDecode' | 'invalid' | 'notReady' // prettier-ignore

/** Why requests were refused before they were accepted. */
export type RefusalReason =
  | 'invalid'
  | 'cancelled'
  | 'closed'
  | 'notReady'
  | 'sequenceEnded'
  | 'timeout'
  | 'deadline'
  | 'leaseEnded'
  | 'imageDecode'
  | 'other'

export const rejectionReasons = [
  'queueFull', 'timeout', 'deadline', 'cancelled', 'closed', 'crashed', 'execution', 'changed', 'sequenceEnded', 'imageDecode', 'invalid', 'notReady',
] as const satisfies readonly RejectionReason[] // prettier-ignore

export const refusalReasons = [
  'invalid', 'cancelled', 'closed', 'notReady', 'sequenceEnded', 'timeout', 'deadline', 'leaseEnded', 'imageDecode', 'other',
] as const satisfies readonly RefusalReason[] // prettier-ignore

/** How a request counts that was accepted, or found no place or no time, and ended with an error. */
const rejectionByCode: Readonly<Record<InferenceErrorCode, RejectionReason>> = {
  ERR_QUEUE_FULL: 'queueFull',
  ERR_TIMEOUT: 'timeout',
  ERR_DEADLINE: 'deadline',
  ERR_CLOSED: 'closed',
  ERR_INSTANCE_CRASHED: 'crashed',
  ERR_SEQUENCE_ENDED: 'sequenceEnded',
  ERR_IMAGE_DECODE: 'imageDecode',
  ERR_INVALID_ARG: 'invalid',
  ERR_MODEL_NOT_READY: 'notReady',
  ERR_MODEL_NOT_FOUND: 'notReady',
  ERR_MODEL_CONFIG: 'execution',
  ERR_MODEL_LOAD: 'execution',
  ERR_MODEL_IN_USE: 'execution',
  ERR_EXECUTION: 'execution',
  ERR_NATIVE_LOAD: 'execution',
  ERR_PLATFORM: 'execution',
  ERR_DISCONNECTED: 'execution',
  ERR_LEASE_ENDED: 'execution',
}

/** How a request counts that was refused before. */
const refusalByCode: Readonly<Record<InferenceErrorCode, RefusalReason>> = {
  ERR_INVALID_ARG: 'invalid',
  ERR_CLOSED: 'closed',
  ERR_MODEL_NOT_READY: 'notReady',
  ERR_SEQUENCE_ENDED: 'sequenceEnded',
  ERR_TIMEOUT: 'timeout',
  ERR_DEADLINE: 'deadline',
  ERR_LEASE_ENDED: 'leaseEnded',
  ERR_IMAGE_DECODE: 'imageDecode',
  ERR_MODEL_CONFIG: 'other',
  ERR_MODEL_NOT_FOUND: 'other',
  ERR_MODEL_LOAD: 'other',
  ERR_MODEL_IN_USE: 'other',
  ERR_QUEUE_FULL: 'other',
  ERR_INSTANCE_CRASHED: 'other',
  ERR_EXECUTION: 'other',
  ERR_NATIVE_LOAD: 'other',
  ERR_PLATFORM: 'other',
  ERR_DISCONNECTED: 'other',
}

/** The reason under which a rejection counts that its caller did not ask for. */
export function rejectionOf(error: unknown): RejectionReason {
  return byCode(rejectionByCode, error) ?? 'execution'
}

/**
 * The reason under which a refusal counts.
 *
 * @param signal of the request: only what is its reason was meant by the caller.
 */
export function refusalOf(error: unknown, signal: AbortSignal | undefined): RefusalReason {
  if (signal?.aborted && error === signal.reason) return 'cancelled'
  return byCode(refusalByCode, error) ?? 'other'
}

/** `undefined` for an error that is none of this library, or that a caller has made with another code. */
function byCode<Reason>(
  reasons: Readonly<Record<InferenceErrorCode, Reason>>,
  error: unknown,
): Reason | undefined {
  return error instanceof InferenceError && Object.hasOwn(reasons, error.code)
    ? reasons[error.code]
    : undefined
}

/** A count of 0 for each reason. */
export function noneOf<Reason extends string>(reasons: readonly Reason[]): Record<Reason, number> {
  return Object.fromEntries(reasons.map((reason) => [reason, 0])) as Record<Reason, number>
}
