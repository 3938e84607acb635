import type { BatchReport, ReportedOutputs, StepReport } from '../../options/infer-options.ts'
import type { AnyOutputs } from '../../options/model-signature.ts'
import type { Answer } from '../../request/infer-request.ts'
import type { GraphStep } from './pipeline-graph.ts'

/** Collects the reports of the steps of one request, for the report of the whole. */
export class StepReports {
  readonly #steps: StepReport[] = []
  readonly #parentId: number
  /** By step. */
  readonly #begun: { readonly version: number; readonly beganMs: number }[] = []

  constructor(parentId: number) {
    this.#parentId = parentId
  }

  /** @param beganMs from the request's call, in milliseconds. */
  began({ index }: GraphStep, version: number, beganMs: number): void {
    this.#begun[index] = { version, beganMs }
  }

  /** Takes the report of a step out of its answer. */
  take({ index, name, model }: GraphStep, answer: Answer): AnyOutputs {
    const { outputs, report } = answer as ReportedOutputs<AnyOutputs>
    this.#steps.push({ ...report, step: name, model, parentId: this.#parentId, ...this.#begun[index]! })
    return outputs
  }

  /** @param waitedMs until the first steps began. */
  whole(pipeline: string, rows: number, waitedMs: number): BatchReport {
    const steps = this.#steps
    const last = steps.at(-1)
    return {
      batchId: this.#parentId,
      batchSize: rows,
      paddedTo: null,
      position: 0,
      queuedMs: steps.reduce((sum, { queuedMs }) => sum + queuedMs, waitedMs),
      computeMs: steps.reduce((sum, { computeMs }) => sum + computeMs, 0),
      reason: last?.reason ?? 'full',
      inline: steps.every(({ inline }) => inline),
      instance: pipeline,
      attempts: Math.max(1, ...steps.map(({ attempts }) => attempts)),
      steps,
    }
  }
}
