import type { TensorData } from '../../tensor/tensor.ts'
import type { GraphStep, PipelineGraph } from './pipeline-graph.ts'
import type { StagedRows, StepServing } from './step-target.ts'

/** Which step alone is made of what another makes, by tensor; `null` where there is none, or others see the tensor too. */
export function onlyTakers({ tensors, steps, outputs }: PipelineGraph): (GraphStep | null)[] {
  return tensors.map(({ madeBy, awaitedBy }, tensor) => {
    const [next, ...others] = awaitedBy
    if (madeBy === -1 || next === undefined || others.length > 0 || outputs.includes(tensor)) return null
    const step = steps[next]!
    return step.when === null && step.inputs.length === 1 ? step : null
  })
}

/** Tensors of one request that were written where the steps that take them will be run. Each is held until the request is settled, or the step is. */
export class StagedTensors {
  /** By tensor. */
  readonly #staged: {
    readonly rows: StagedRows
    readonly serving: StepServing
    readonly data: TensorData
  }[] = []

  /** Where a tensor of so many rows is to be written; `null` where there is no room. */
  add(tensor: number, serving: StepServing, rows: number): TensorData | null {
    if (this.#staged[tensor] !== undefined) return null
    const staged = serving.leases.lendIfAny()?.stage(rows) ?? null
    const data = staged === null ? null : staged.whole(0)
    if (data !== null) this.#staged[tensor] = { rows: staged!, serving, data }
    return data
  }

  /** The rows that a tensor lies in, if they are of a batch of what serves now. */
  of(tensor: number, serving: StepServing, data: unknown): StagedRows | null {
    const staged = this.#staged[tensor]
    return staged !== undefined && staged.serving === serving && staged.data === data ? staged.rows : null
  }

  /** Nobody needs them any more. */
  settled(): void {
    for (const staged of this.#staged) if (staged !== undefined) staged.rows.settled()
  }
}
