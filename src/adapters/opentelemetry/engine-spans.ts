import {
  type Attributes,
  context,
  type Context,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api'
import type {
  ObservedBatch,
  ObservedModel,
  RequestFacts,
  RequestObservation,
  RequestObserver,
} from '../../observe/request-observer.ts'

/**
 * Spans of requests and batches. The span of a request is a child of its caller's active span. A batch has
 * many callers, so it is a trace of its own; links connect it with its requests in both directions. A batch
 * is a child of its first request if it has only one, or if it is not sampled by itself.
 */
export class EngineSpans implements RequestObserver {
  readonly #tracer: Tracer
  readonly #own: Attributes
  /** The batch whose requests are being reported. */
  #batch: { readonly of: ObservedBatch; readonly span: Span; readonly originMs: number } | null = null
  #ended = false

  /** @param own attributes of all spans. */
  constructor(tracer: Tracer, own: Attributes) {
    this.#tracer = tracer
    this.#own = own
  }

  /** Stops reporting batches. Spans of requests still end. */
  end(): void {
    this.#ended = true
  }

  begun(model: ObservedModel, facts: RequestFacts): RequestObservation | null {
    return this.#request(model, facts, context.active())
  }

  /** The observation of a request; `null` if its span is not recorded. */
  #request(
    model: ObservedModel,
    { atMs, rows, options: { requestId, priority, sequence } }: RequestFacts,
    parent: Context,
  ): RequestObservation | null {
    const attributes = {
      ...this.#own, ...modelAttributes(model), 'zerohop.rows': rows,
      ...(requestId !== undefined && { 'zerohop.request.id': requestId }),
      ...(priority !== undefined && { 'zerohop.request.priority': priority }),
      ...(sequence !== undefined && { 'zerohop.sequence.id': String(sequence.id) }),
    } // prettier-ignore
    const originMs = epochOriginMs()
    const span = this.#tracer.startSpan(
      `infer ${model.name}`,
      { kind: SpanKind.INTERNAL, attributes, startTime: originMs + atMs },
      parent,
    )
    if (!span.isRecording()) return null
    const own = trace.setSpan(parent, span)
    return {
      child: (inner, innerFacts) => this.#request(inner, innerFacts, own),
      ran: ({ batch, position, queuedAtMs, begunAtMs, times }) => {
        const batchSpan = this.#batchSpan(batch, own, originMs)
        const linked = { 'zerohop.batch.position': position }
        if (batchSpan?.isRecording() && batch.requestCount > 1) {
          span.addLink({ context: batchSpan.spanContext(), attributes: linked })
          batchSpan.addLink({ context: span.spanContext(), attributes: linked })
        }
        span.setAttributes({
          'zerohop.queue.ms': begunAtMs - queuedAtMs,
          'zerohop.compute.ms': times.inputMs + times.inferMs + times.outputMs,
        })
      },
      shared: ({ how }) => void span.setAttribute('zerohop.answer', how),
      ended: (succeeded, reason) => {
        if (!succeeded) {
          const { code, message } = (reason ?? {}) as { code?: unknown; message?: unknown }
          span.setAttribute('error.type', typeof code === 'string' ? code : 'cancelled')
          span.setStatus({ code: SpanStatusCode.ERROR, ...(typeof message === 'string' && { message }) })
        }
        span.end(originMs + performance.now())
      },
    }
  }

  /**
   * The span of a batch, started with the first of its requests that has a span; `null` if its end would not
   * be reported.
   */
  #batchSpan(of: ObservedBatch, first: Context, originMs: number): Span | null {
    if (this.#ended) return null
    if (this.#batch?.of === of) return this.#batch.span
    const { model, rows, requestCount, reason, isRerun, instance, worker, inline, moments } = of
    const attributes = {
      ...this.#own, ...modelAttributes(model), 'zerohop.rows': rows, 'zerohop.batch.requests': requestCount, 'zerohop.batch.reason': reason,
      'zerohop.instance': instance, 'zerohop.worker': worker, ...(inline && { 'zerohop.inline': true }), ...(isRerun && { 'zerohop.rerun': true }),
    } // prettier-ignore
    const startTime = originMs + (moments === null ? performance.now() : moments.takenAtMs)
    const begin = (root: boolean) =>
      this.#tracer.startSpan(
        `batch ${model.name}`,
        { kind: SpanKind.INTERNAL, attributes, startTime, root },
        first,
      )
    const own = begin(requestCount > 1)
    // If the batch is not sampled by itself, its sampled requests would lack it. It then becomes a child of
    // the first of them.
    const span = own.isRecording() ? own : begin(false)
    this.#batch = { of, span, originMs }
    return span
  }

  batchEnded(batch: ObservedBatch): void {
    if (this.#batch?.of !== batch) return
    const { span, originMs } = this.#batch
    this.#batch = null
    const { moments, error } = batch
    if (moments !== null) {
      span.addEvent('gathered', originMs + moments.gatheredAtMs)
      span.addEvent('run began', originMs + moments.inferStartMs)
      span.addEvent('run ended', originMs + moments.inferEndMs)
    }
    if (error !== null) span.setStatus({ code: SpanStatusCode.ERROR, message: error })
    span.end(originMs + (moments === null ? performance.now() : moments.doneAtMs))
  }
}

/** Attributes that identify a model. */
export function modelAttributes({ name, version }: Pick<ObservedModel, 'name' | 'version'>): Attributes {
  return { 'zerohop.model.name': name, 'zerohop.model.version': version }
}

/** The two clocks differ by more than this only if one was set or stood still. */
const toleranceMs = 10

let originMs = performance.timeOrigin

/**
 * The time at which `performance.now()` was 0, by the wall clock that callers' spans use. That clock can be
 * set, and goes on while the machine sleeps. Use one origin for all times of a span.
 */
function epochOriginMs(): number {
  for (let tries = 0; tries < 5; tries++) {
    const beforeMs = performance.now()
    const seenMs = Date.now() + 0.5 - beforeMs // Date.now() is in whole milliseconds
    if (performance.now() - beforeMs > 1) continue // the thread was suspended between the two reads
    if (Math.abs(seenMs - originMs) > toleranceMs) originMs = seenMs
    break
  }
  return originMs
}
