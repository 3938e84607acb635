import { InferenceError } from '../errors.ts'

/**
 * `loading` until every instance is up and warmed, then `ready`; `draining` while what was accepted is finished, then
 * `closed`; `failed` when it could not be loaded, its workers died three times in a row over its own runs, or no thread could be had
 * any more.
 */
export type ModelState = 'loading' | 'ready' | 'draining' | 'closed' | 'failed'

/** What becomes of one version of a name. */
export interface ModelVersionStatus {
  /** Its number. */
  readonly version: number
  /** How far it is. */
  readonly state: ModelState
  /** Why it failed; `null` unless its state is `failed`. */
  readonly failure: string | null
  /** Whether it is being loaded again, to take its place. */
  readonly replacing: boolean
}

/** What a caller can do about a model that is not ready, if that is not to load it again. */
const nextStep: Partial<Record<ModelState, string>> = {
  loading: 'Wait for load().',
  draining: 'It takes no more requests: it, or its engine, is being closed.',
}

/** The error of whoever wants something of a model that is not ready. */
export function notReady(
  model: string,
  { state, failure }: { readonly state: ModelState; readonly failure: string | null },
): InferenceError {
  const closed = state === 'draining' || state === 'closed'
  const why = failure === null ? '' : `: ${failure}`
  const message = `Model '${model}' is ${state}${why}. ${nextStep[state] ?? 'Load it again.'}`
  return new InferenceError(closed ? 'ERR_CLOSED' : 'ERR_MODEL_NOT_READY', message, {
    model,
    expected: 'ready',
    received: state,
  })
}
