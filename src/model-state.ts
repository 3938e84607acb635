/**
 * `loading` until every instance is up and warmed, then `ready`; `draining` while what was accepted is finished, then
 * `closed`; `failed` when it could not be loaded, its workers died three times in a row over its own runs, or no thread could be had
 * any more.
 */
export type ModelState = 'loading' | 'ready' | 'draining' | 'closed' | 'failed'

/** What becomes of one version of a name. */
export interface ModelVersionStatus {
  readonly version: number
  readonly state: ModelState
  /** Why it failed; `null` unless its state is `failed`. */
  readonly failure: string | null
  /** Whether it is being loaded again, to take its place. */
  readonly replacing: boolean
}
