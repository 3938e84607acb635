import type { Answer } from '../../request/infer-request.ts'
import type { RejectionReason } from '../../observe/rejections.ts'
import type { GraphStep, PipelineGraph } from './pipeline-graph.ts'
import type { StepBinding } from './step-binding.ts'
import type { StepErrors } from './step-errors.ts'
import type { StepStats } from './step-stats.ts'

/** What a request needs of its pipeline. */
export interface RunOwner<Run> {
  readonly graph: PipelineGraph
  readonly errors: StepErrors
  readonly stepStats: readonly StepStats[]
  nowMs(): number
  /** The same for all that is answered together. */
  answeredAtMs(): number
  /** By tensor, the step that alone takes it. */
  readonly onlyTakers: readonly (GraphStep | null)[]
  /** @throws InferenceError when what serves the step's model now does not fit, or nothing does. */
  bind(step: GraphStep, requestId: string | undefined): StepBinding
  /** Has `begin` called for a step soon, with all others that come in the same turn. */
  later(run: Run, step: GraphStep): void
  /** The request is settled: `answer` is `null` where it failed, and else `why` and `reason` mean nothing. */
  ended(run: Run, nowMs: number, answer: Answer | null, why: RejectionReason, reason: unknown): void
}
