import type { AnswerOptions, CheckedOptions, ReportedOutputs } from '../../options/infer-options.ts'
import type { AnyOutputs } from '../../options/model-signature.ts'
import { InferenceError } from '../../errors.ts'
import { batchAxisOf } from '../../tensor/metadata.ts'
import type { Answer } from '../../request/infer-request.ts'
import { joinRows } from '../../request/split.ts'
import { putValue, type TensorLike } from '../../tensor/tensor.ts'
import type { FannedFeeds } from './pipeline-values.ts'
import type { RunningStep, StepCaller } from '../target.ts'
import type { StepBinding } from './step-binding.ts'

/** A step of one request whose rows are run one by one. */
interface FannedStep {
  /** Of the step, when it began. */
  readonly binding: StepBinding
  readonly feeds: FannedFeeds
  readonly wanted: Pick<AnswerOptions, 'report' | 'requestId'>
  /**
   * The current binding of the model, and the options for the next row. Throws if no model serves the step,
   * or no time is left.
   */
  renew(): { readonly binding: StepBinding; readonly options: CheckedOptions }
  /** Notified once, when the step ends. */
  readonly caller: StepCaller<StepBinding> & {
    failed(binding: StepBinding, reason: unknown, row: number | null): void
  }
}

/**
 * Sends each row of a step to its model, as many at a time as the model's queue has room for, and joins the
 * answers. It ends once.
 */
export class FanOut implements RunningStep {
  readonly #of: FannedStep
  readonly #answers: Answer[] = [] // by row
  readonly #running = new Map<number, RunningStep>() // by row
  #next = 0
  #open = 0
  #missing: number
  #hasEnded = false
  #isToSend = false

  constructor(of: FannedStep) {
    this.#of = of
    this.#missing = of.feeds.rows
  }

  start(): void {
    if (this.#missing === 0) this.#succeed(() => this.#ofNoRow())
    else this.#send()
  }

  cancel(reason: unknown): void {
    this.#hasEnded = true
    const running = [...this.#running.values()]
    this.#running.clear()
    for (const row of running) row.cancel(reason)
  }

  /**
   * A row that finds no room waits until another is answered. If no other row is open, it is sent all the
   * same, and refused like any request.
   */
  #send(): void {
    const { rows } = this.#of.feeds
    this.#isToSend = false
    try {
      const { binding, options } = this.#of.renew()
      while (
        !this.#hasEnded &&
        this.#next < rows &&
        (this.#open === 0 || binding.target.room(options.priority) > 0)
      )
        this.#sendRow(this.#next++, binding, options)
    } catch (error) {
      this.#fail(error, null)
    }
  }

  #sendRow(row: number, binding: StepBinding, options: CheckedOptions): void {
    const { feeds, caller } = this.#of
    let hasEnded = false
    const end = () => {
      hasEnded = true
      this.#open--
      this.#running.delete(row)
    }
    const rowCaller: StepCaller<StepBinding> = {
      observation: caller.observation,
      answered: (_, answer) => {
        end()
        this.#answered(row, answer)
      },
      failed: (_, reason) => {
        end()
        this.#fail(reason, row)
      },
      placeFor: () => null,
    }
    this.#open++
    try {
      const running = binding.target.begin(binding, feeds.ofRow(row), options, rowCaller)
      if (!hasEnded) this.#running.set(row, running)
    } catch (error) {
      rowCaller.failed(binding, error)
    }
  }

  #answered(row: number, answer: Answer): void {
    if (this.#hasEnded) return
    this.#answers[row] = answer
    if (--this.#missing === 0) return this.#succeed(() => this.#joined())
    if (this.#isToSend || this.#next === this.#of.feeds.rows) return
    this.#isToSend = true
    queueMicrotask(() => {
      // Later, as rows answered together make room together.
      if (!this.#hasEnded) this.#send()
    })
  }

  #succeed(answerOf: () => Answer): void {
    let answer: Answer
    try {
      answer = answerOf()
    } catch (error) {
      return this.#fail(error, null)
    }
    this.#hasEnded = true
    this.#of.caller.answered(this.#of.binding, answer)
  }

  #fail(reason: unknown, row: number | null): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    queueMicrotask(() => this.cancel(reason)) // later: others may be in its batch
    this.#of.caller.failed(this.#of.binding, reason, row)
  }

  #joined(): Answer {
    const { binding, wanted } = this.#of
    const { step, metadata } = binding
    const { report, requestId } = wanted
    for (const [row, answer] of this.#answers.entries())
      this.#checkRow(row, report ? (answer as ReportedOutputs<AnyOutputs>).outputs : (answer as AnyOutputs))
    return joinRows(this.#answers, {
      model: step.model,
      outputs: metadata.outputs,
      rows: this.#answers.map(() => 1),
      report,
      requestId,
    })
  }

  /**
   * Each output must have one entry for the row. Outputs with an index column are exempt: they say which row
   * an entry belongs to.
   */
  #checkRow(row: number, answer: AnyOutputs): void {
    const { step, metadata } = this.#of.binding
    for (const { name } of step.outputs) {
      const output = metadata.outputs.find((each) => each.name === name)!
      const dims = (answer[name] as Partial<TensorLike> | null)?.dims
      if (output.rows !== undefined || !Array.isArray(dims) || dims[Math.max(0, batchAxisOf(output))] === 1)
        continue
      const expected = 'one entry for the row, or outputs of the model that say whose entries they are (rows)'
      throw new InferenceError('ERR_EXECUTION', `Output '${name}' of model '${step.model}' has dims [${dims.join(', ')}] for row ${row}; expected ${expected}.`, {
        model: step.model, name, expected, received: `[${dims.join(', ')}]`,
      }) // prettier-ignore
    }
  }

  #ofNoRow(): Answer {
    const { binding, feeds, wanted } = this.#of
    const { step, metadata } = binding
    const none: AnyOutputs = {}
    for (const { name } of step.outputs)
      putValue(none, name, feeds.noneOf(metadata.outputs.find((each) => each.name === name)!))
    if (!wanted.report) return none
    return {
      outputs: none,
      report: {
        batchId: 0,
        batchSize: 0,
        paddedTo: null,
        position: 0,
        queuedMs: 0,
        computeMs: 0,
        reason: 'full',
        inline: true,
        instance: step.model,
        attempts: 0,
        parts: [],
      },
    }
  }
}
