import type { Clock } from '../base/clock.ts'
import type { BatchTimes, ModelCounts } from '../observe/model-counts.ts'
import type { RejectionReason } from '../observe/rejections.ts'
import { copyOf, elementCount, makeTensor, putValue, type ElementType } from '../tensor/tensor.ts'
import type { OutputValue } from '../tensor/values.ts'
import type { FinishedBatch, RunLayout } from './batch.ts'
import type { AnswerOrder } from './answer-order.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import type { BatchReport } from '../options/infer-options.ts'
import type { AnyOutputs } from '../options/model-signature.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import type { Padding } from '../request/padding.ts'
import type { ShapedTensors } from '../request/shaped-tensors.ts'
import type { Joining } from './joining.ts'
import type { ObservedRequests } from './observed-requests.ts'
import type { RequestErrors } from './failures.ts'
import type { Answer, InferRequest } from '../request/infer-request.ts'
import { failedRequests, nonFiniteOutput, scatter, type divided } from './scatter.ts'
import { RequestPart, SplitRequest, wholeOf } from './split-request.ts'

/** Divides finished batches among their requests, settles them, and counts it. */
export class Answers {
  readonly #metadata: ModelMetadata
  readonly #padding: Padding | null
  readonly #reshapes: ShapedTensors['outputs']
  readonly #counts: ModelCounts
  readonly #errors: RequestErrors
  readonly #clock: Clock
  readonly #observed: ObservedRequests
  readonly #finiteOnly: boolean
  readonly #order: AnswerOrder | null

  constructor(
    { stacked, shaped }: Pick<Joining, 'stacked' | 'shaped'>,
    padding: Padding | null,
    counts: ModelCounts,
    errors: RequestErrors,
    clock: Clock,
    observed: ObservedRequests,
    { rejectNonFinite, responses }: Pick<ResolvedConfig, 'rejectNonFinite' | 'responses'>,
    order: AnswerOrder | null,
  ) {
    this.#metadata = stacked
    this.#reshapes = shaped.outputs
    this.#padding = padding
    this.#counts = counts
    this.#errors = errors
    this.#clock = clock
    this.#observed = observed
    this.#finiteOnly = rejectNonFinite === 'outputs'
    // Where requests share runs it is their callers that are answered in order.
    this.#order = responses === null ? order : null
  }

  /** A request has been accepted: its place among the responses is the next. */
  accept(request: InferRequest): void {
    this.#order?.accept(request)
  }

  /**
   * Answers the requests of a batch; when that cannot be done (there is no memory for the outputs, say) rejects them.
   *
   * @param divisions of outputs that have not one entry for each row; `null` where there are none.
   */
  answer(batch: FinishedBatch, nowMs: number, divisions: ReturnType<typeof divided> = null): void {
    try {
      this.#answer(batch, nowMs, divisions)
    } catch (error) {
      const { message } = error as Error
      if (this.#observed.by.observer !== null) this.#observed.batchFailed(batch, message, nowMs)
      for (const request of batch.requests) this.failed(request, this.#errors.failedRun(request, message))
    }
  }

  #answer(batch: FinishedBatch, scatterAtMs: number, divisions: ReturnType<typeof divided>): void {
    const { requests, rows, timeline } = batch
    const { takenAtMs, gatheredAtMs } = timeline
    const failures =
      batch.failures === null && batch.mailed === null ? null : failedRequests(this.#metadata, batch)
    const isPlain =
      failures === null &&
      batch.mailed === null &&
      this.#padding === null &&
      this.#reshapes === null &&
      liesByRow(this.#metadata, batch.slot.layout!, requests)
    const outputs = isPlain
      ? scatterRows(this.#metadata, batch.slot.layout!, requests)
      : scatter(this.#metadata, this.#padding, this.#reshapes, batch, failures, divisions)
    const doneAtMs = this.#clock.nowMs()

    const strange = this.#finiteOnly ? outputs.map(nonFiniteOutput) : null
    // The worker's clock is some microseconds off. Its times are clamped, so that no duration is negative.
    const startMs = between(gatheredAtMs, timeline.startMs, scatterAtMs)
    const inferStartMs = between(startMs, timeline.inferStartMs, scatterAtMs)
    const inferEndMs = between(inferStartMs, timeline.inferEndMs, scatterAtMs)
    const begunAtMs = takenAtMs + (startMs - gatheredAtMs) // handed over, but another batch still ran
    const times: BatchTimes = {
      inputMs: gatheredAtMs - takenAtMs + (inferStartMs - startMs),
      inferMs: inferEndMs - inferStartMs,
      outputMs: doneAtMs - scatterAtMs,
    }
    this.#counts.ran(rows, times, batch.inline, batch.slot.emptyRows)
    if (this.#padding !== null) this.#countPadding(batch)
    if (this.#observed.by.observer !== null)
      this.#observed.batchRan(
        batch,
        { takenAtMs, gatheredAtMs, startMs, inferStartMs, inferEndMs, scatterAtMs, doneAtMs },
        begunAtMs,
        times,
      )
    // Only answered requests are counted: an observer of the batch, or the caller of another request, may withdraw one meanwhile.
    const enqueuedAtMs: number[] = []
    try {
      let position = 0
      for (let member = 0; member < requests.length; member++) {
        const request = requests[member]!
        const own = outputs[member]!
        const output = strange?.[member]
        const failure = failures?.[member]
        if (failure) this.failed(request, this.#errors.failedRun(request, failure))
        else if (output) this.failed(request, this.#errors.nonFinite(request, output))
        else if (
          this.#succeed(
            request,
            request.wanted.report ? { outputs: own, report: this.#report(batch, request, position) } : own,
            begunAtMs,
            times,
          )
        )
          enqueuedAtMs.push(request.enqueuedAtMs)
        position += request.rows
      }
    } finally {
      this.#counts.waited(enqueuedAtMs, begunAtMs, doneAtMs)
      this.#counts.computed(enqueuedAtMs.length, times)
    }
  }

  /** Rejects a request whose run failed: a response like any other, and in its order. */
  failed(request: InferRequest, error: Error, why: RejectionReason = 'execution'): void {
    if (request.settled) return
    const whole = wholeOf(request)
    if (whole instanceof SplitRequest) whole.withdraw()
    this.#fail(whole, why, error)
  }

  /** Rejects a request that did not come to a run, at once. */
  reject(request: InferRequest, why: RejectionReason, reason: unknown): void {
    const whole = wholeOf(request)
    if (whole.fail(reason, why === 'cancelled') && whole.account === null) this.#countFailed(whole, why)
    this.#order?.left(whole)
  }

  /** Returns whether it is to be counted with its batch. */
  #succeed(request: InferRequest, answer: Answer, begunAtMs: number, itsTimes: BatchTimes): boolean {
    if (request.settled) return false
    const { account } = request
    if (account !== null) account.ran(begunAtMs, itsTimes)
    if (request instanceof RequestPart) this.#succeedPart(request, answer)
    else if (this.#order !== null)
      this.#order.ended(request, { answer, count: this.#toCount(request, begunAtMs, itsTimes) })
    else return request.succeed(answer) && account === null
    return false
  }

  #succeedPart(part: RequestPart, answer: Answer): void {
    part.succeed(answer)
    const whole = part.parent
    const outcome = whole.answered(part, answer)
    if (outcome === null) return
    if ('reason' in outcome) return this.#fail(whole, 'execution', outcome.reason)
    if (whole.account !== null) whole.account.ran(whole.begunAtMs, whole.times)
    else if (this.#order !== null)
      return this.#order.ended(whole, {
        ...outcome,
        count: this.#toCount(whole, whole.begunAtMs, whole.times),
      })
    else this.#counts.answered(whole.enqueuedAtMs, whole.begunAtMs, whole.times, this.#clock.nowMs())
    whole.succeed(outcome.answer)
  }

  #fail(request: InferRequest, why: RejectionReason, reason: unknown): void {
    if (this.#order !== null)
      return this.#order.ended(request, { reason, count: () => this.#countFailed(request, why) })
    if (request.account === null) this.#countFailed(request, why)
    request.fail(reason)
  }

  /** Counts an answered request, when it is called. */
  #toCount({ enqueuedAtMs }: InferRequest, begunAtMs: number, times: BatchTimes): () => void {
    return () => this.#counts.answered(enqueuedAtMs, begunAtMs, times, this.#clock.nowMs())
  }

  #countFailed({ enqueuedAtMs }: InferRequest, why: RejectionReason): void {
    this.#counts.failed(why, this.#clock.nowMs() - enqueuedAtMs)
  }

  #report(
    { id, rows, slot, timeline, reason, inline, instance }: FinishedBatch,
    request: InferRequest,
    position: number,
  ): BatchReport {
    return {
      batchId: id,
      batchSize: rows,
      paddedTo: slot.layout!.lengths?.[0] ?? null,
      position,
      queuedMs: Math.max(0, timeline.startMs - request.enqueuedAtMs),
      computeMs: timeline.inferEndMs - timeline.inferStartMs,
      reason,
      inline,
      instance,
      attempts: request.attempts,
    }
  }

  #countPadding({ requests, rows, slot }: FinishedBatch): void {
    const { lengths, inputDims } = slot.layout!
    if (lengths === null) return
    for (const [entry, { index }] of this.#padding!.inputs.entries()) {
      const dims = inputDims[index]
      if (!dims) continue // an optional input that was left out
      const perLength = elementCount(dims.slice(1)) / Math.max(1, lengths[entry]!)
      let own = 0
      for (const request of requests) own += request.rows * this.#padding!.ownLength(entry, request)!
      this.#counts.padded(own * perLength, rows * lengths[entry]! * perLength)
    }
  }
}

function between(fromMs: number, atMs: number, toMs: number): number {
  return Math.max(fromMs, Math.min(atMs, toMs))
}

/** Whether each request gets its rows of every output, of which they are the first dimension. */
function liesByRow(
  { maxBatchSize, outputs }: ModelMetadata,
  { packs, outputAxes, outputViews }: RunLayout,
  requests: readonly InferRequest[],
): boolean {
  if (maxBatchSize === 0 || packs || outputs.length === 0) return false
  for (let index = 0; index < outputs.length; index++)
    if (outputAxes[index] !== 0 || !outputViews[index]) return false
  for (const { outputs: wanted, turn, isStep, whole } of requests)
    if (wanted !== null || turn !== null || isStep || whole) return false
  return true
}

/** What {@link scatter} gives for most batches, in four fifths of the time. */
function scatterRows(
  { outputs }: ModelMetadata,
  layout: RunLayout,
  requests: readonly InferRequest[],
): AnyOutputs[] {
  const results: AnyOutputs[] = []
  for (let index = 0; index < outputs.length; index++) {
    const { name, type } = outputs[index]!
    const view = layout.outputViews[index] as Float32Array
    const rowElements = layout.outputRowElements[index]!
    const batchDims = layout.outputs[index]!.dims
    let at = 0
    for (let member = 0; member < requests.length; member++) {
      const { rows } = requests[member]!
      const dims = batchDims.slice()
      dims[0] = rows
      const tensor = makeTensor(type as ElementType, copyOf(view, at, (at += rows * rowElements)), dims)
      const result = (results[member] ??= {})
      // Here and not in `putValue`, as V8 keeps the names seen at each place in code: with one model and output it is one.
      if (name === '__proto__') putValue<OutputValue>(result, name, tensor)
      else result[name] = tensor
    }
  }
  return results
}
