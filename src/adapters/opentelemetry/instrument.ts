import {
  type Attributes,
  diag,
  type MeterProvider,
  metrics,
  trace,
  type TracerProvider,
} from '@opentelemetry/api'
import type { InferenceEngine } from '../../engine.ts'
import { resourcesOf } from '../../engine/engine-resources.ts'
import { invalidArgument } from '../../errors.ts'
import type { RequestObservation, RequestObserver } from '../../observe/request-observer.ts'
import { EngineMetrics } from './engine-metrics.ts'
import { EngineSpans } from './engine-spans.ts'
import { unknownOption } from '../../options/plain-options.ts'

const name = 'zerohop'
const optionNames: readonly string[] = [
  'tracerProvider',
  'meterProvider',
  'attributes',
] satisfies (keyof InstrumentOptions)[]

/** What an engine reports, and to which providers. */
export interface InstrumentOptions {
  /** Default: the provider registered with `@opentelemetry/api`; `false`: no spans. */
  tracerProvider?: TracerProvider | false
  /** Default: the registered provider; `false`: no metrics. */
  meterProvider?: MeterProvider | false
  /**
   * Attributes of all spans and metrics, such as `{ 'zerohop.engine': 'vision' }`. They tell apart engines
   * that report to one provider. Default: none.
   */
  attributes?: Attributes
}

/** An engine that reports to OpenTelemetry. */
export interface Instrumentation {
  /** Stops reporting. May be called twice. */
  disable(): void
}

/**
 * Reports an engine to OpenTelemetry until the engine is closed or {@link Instrumentation.disable} is called.
 * Needs the package `@opentelemetry/api`, and uses only the registered providers or the given ones.
 *
 * - Spans: `infer MODEL` for each request, a child of its caller's span, also for the models that a pipeline
 *   runs; `batch MODEL` for each run, linked with the spans of its requests. Spans that a tracer does not
 *   sample are not built.
 * - Histograms: `zerohop.request.duration`, `zerohop.queue.duration`, `zerohop.batch.duration` (seconds) and
 *   `zerohop.batch.size` (rows).
 * - Gauges: `zerohop.requests.pending`, `zerohop.instances` and `zerohop.staging.used` (bytes).
 *
 * Errors that processors and readers throw go to `diag`.
 *
 * @throws InferenceError `ERR_INVALID_ARG` if `engine` is no InferenceEngine, and for an invalid option.
 */
export function instrument(engine: InferenceEngine, options: InstrumentOptions = {}): Instrumentation {
  const { observers } = resourcesOf(engine)
  checkOptions(options)
  const { tracerProvider, meterProvider, attributes = {} } = options
  const spans =
    tracerProvider === false
      ? null
      : new EngineSpans((tracerProvider ?? trace.getTracerProvider()).getTracer(name), { ...attributes })
  const measured =
    meterProvider === false
      ? null
      : new EngineMetrics((meterProvider ?? metrics.getMeterProvider()).getMeter(name), engine, {
          ...attributes,
        })
  const told = [spans, measured].flatMap((observer) => (observer === null ? [] : [contained(observer)]))
  for (const observer of told) observers.add(observer)
  return {
    disable() {
      for (const observer of told) observers.remove(observer)
      spans?.end()
      measured?.end()
    },
  }
}

function checkOptions(options: InstrumentOptions): void {
  if (typeof options !== 'object' || options === null) throw invalidArgument('options', 'an object', options)
  for (const option of Object.keys(options))
    if (!optionNames.includes(option)) throw unknownOption(`options.${option}`, option, optionNames)
  const { tracerProvider, meterProvider, attributes = {} } = options
  if (tracerProvider && typeof tracerProvider.getTracer !== 'function')
    throw invalidArgument(
      'options.tracerProvider',
      'a TracerProvider of OpenTelemetry, or false',
      tracerProvider,
    )
  if (meterProvider && typeof meterProvider.getMeter !== 'function')
    throw invalidArgument(
      'options.meterProvider',
      'a MeterProvider of OpenTelemetry, or false',
      meterProvider,
    )
  if (typeof attributes !== 'object' || attributes === null || Array.isArray(attributes))
    throw invalidArgument('options.attributes', 'an object', attributes)
}

/**
 * Keeps errors of foreign samplers, processors and readers away from the engine. They go to `diag`, like all
 * failures in OpenTelemetry.
 */
function contained(observer: RequestObserver): RequestObserver {
  return {
    begun: (model, facts) => observationOf(() => observer.begun(model, facts)),
    batchBegan: (batch) => tried(() => observer.batchBegan?.(batch)),
    batchEnded: (batch) => tried(() => observer.batchEnded?.(batch)),
  }
}

/** An observation that never throws, so that its request settles. */
function observationOf(begin: () => RequestObservation | null): RequestObservation | null {
  const observation = tried(begin) ?? null
  if (observation === null) return null
  return {
    child: (model, facts) => observationOf(() => observation.child(model, facts)),
    ran: (run) => tried(() => observation.ran(run)),
    shared: (answer) => tried(() => observation.shared(answer)),
    passed: (begunAtMs, doneAtMs) => tried(() => observation.passed?.(begunAtMs, doneAtMs)),
    ended: (succeeded, reason, answer) => tried(() => observation.ended(succeeded, reason, answer)),
  }
}

function tried<T>(tell: () => T): T | undefined {
  try {
    return tell()
  } catch (error) {
    try {
      diag.error('zerohop: a call of OpenTelemetry threw an error', error)
    } catch {
      // A foreign logger must not throw here, either.
    }
    return undefined
  }
}
