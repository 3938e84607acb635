import type { ResolvedEngineOptions } from '../../options/engine-options.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import type { CompiledFile } from './entry.ts'

/** What the child is given to do. */
export interface TrialTask {
  readonly model: string
  /** Without bytes: those come over standard input, one part behind the other. */
  readonly config: ResolvedConfig
  /** Lengths of what comes there: of the model, if it is in memory, and of its external data. */
  readonly parts: readonly number[]
  readonly engine: Pick<ResolvedEngineOptions, 'executor' | 'providers' | 'workers'>
  /** Where to write the compiled form; `null`: the model is only tried. */
  readonly folder: string | null
}

/** What the child found. */
export interface TrialResult {
  /** Why the model could not be loaded, in ONNX Runtime's words; `null` when it could. */
  readonly error: string | null
  /** What was found out of it; see `WorkerSession.note`. */
  readonly notes: Readonly<Record<string, string>>
  /** `null` when there is no compiled form. */
  readonly files: readonly CompiledFile[] | null
  /** Why not. */
  readonly reason: string
}

/** What the child does: load the model and run it once, or the same with its compiled form. */
export type TrialStage = 'model' | 'compiled form'

/** What the child says. */
export type TrialWord =
  | { readonly type: 'started' }
  | { readonly type: 'stage'; readonly stage: TrialStage }
  | { readonly type: 'done'; readonly result: TrialResult }
