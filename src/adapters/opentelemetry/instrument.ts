import {
  type Attributes,
  diag,
  type MeterProvider,
  metrics,
  trace,
  type TracerProvider,
} from '@opentelemetry/api'
import type { InferenceEngine } from '../../engine.ts'
import { observersOf } from '../../engine/engine-resources.ts'
import { invalidArgument } from '../../errors.ts'
import type { RequestObservation, RequestObserver } from '../../observe/request-observer.ts'
import { EngineMetrics } from './engine-metrics.ts'
import { EngineSpans } from './engine-spans.ts'

const name = 'zerohop'
const optionNames: readonly string[] = [
  'tracerProvider',
  'meterProvider',
  'attributes',
] satisfies (keyof InstrumentOptions)[]

/** What an engine is told to report, and to whom. */
export interface InstrumentOptions {
  /** Default: the one that is registered with `@opentelemetry/api`; `false`: no spans. */
  tracerProvider?: TracerProvider | false
  /** Default: the one that is registered; `false`: no metrics. */
  meterProvider?: MeterProvider | false
  /** Of all spans and metrics, such as `{ 'zerohop.engine': 'vision' }`: by these engines that report to one provider differ. Default: none. */
  attributes?: Attributes
}

/** An engine that reports to OpenTelemetry. */
export interface Instrumentation {
  /** Has it report no more. May be called twice. */
  disable(): void
}

/**
 * Has an engine report to OpenTelemetry, from now on and until it is closed or {@link Instrumentation.disable} is called. Needs the package
 * `@opentelemetry/api`, of which it takes nothing but the registered providers, or those that it is given.
 *
 * Spans: `infer MODEL` for each request, a child of its caller's span, also for the models that a pipeline runs for it; `batch MODEL`
 * for each run, linked with the spans of its requests. What a tracer does not sample is not built. Metrics: the
 * histograms `zerohop.request.duration`, `zerohop.queue.duration`, `zerohop.batch.duration` (seconds) and `zerohop.batch.size` (rows), the gauges
 * `zerohop.requests.pending`, `zerohop.instances` and `zerohop.staging.used` (bytes). What processors and readers throw comes to `diag`.
 *
 * @throws InferenceError `ERR_INVALID_ARG` where `engine` is none, and for an option that is wrong.
 */
export function instrument(engine: InferenceEngine, options: InstrumentOptions = {}): Instrumentation {
  const observers = observersOf(engine)
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
    if (!optionNames.includes(option))
      throw invalidArgument(`options.${option}`, `one of ${optionNames.join(', ')}`, option)
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

/** Keeps from the engine what samplers, processors and readers throw that are not ours: `diag` is told of it, as of all that fails in OpenTelemetry. */
function contained(observer: RequestObserver): RequestObserver {
  return {
    begun: (model, facts) => observationOf(() => observer.begun(model, facts)),
    batchBegan: (batch) => tried(() => observer.batchBegan(batch)),
    batchEnded: (batch) => tried(() => observer.batchEnded(batch)),
  }
}

/** An observation whose request is settled whatever it does. */
class Contained implements RequestObservation {
  readonly #of: RequestObservation

  constructor(of: RequestObservation) {
    this.#of = of
  }

  child(...of: Parameters<RequestObservation['child']>): RequestObservation | null {
    return observationOf(() => this.#of.child(...of))
  }

  ran(...of: Parameters<RequestObservation['ran']>): void {
    tried(() => this.#of.ran(...of))
  }

  shared(...of: Parameters<RequestObservation['shared']>): void {
    tried(() => this.#of.shared(...of))
  }

  passed(...of: Parameters<RequestObservation['passed']>): void {
    tried(() => this.#of.passed(...of))
  }

  ended(...of: Parameters<RequestObservation['ended']>): void {
    tried(() => this.#of.ended(...of))
  }
}

function observationOf(begin: () => RequestObservation | null): RequestObservation | null {
  const observation = tried(begin) ?? null
  return observation === null ? null : new Contained(observation)
}

function tried<T>(tell: () => T): T | undefined {
  try {
    return tell()
  } catch (error) {
    try {
      diag.error('zerohop: what was told to OpenTelemetry has thrown', error)
    } catch {
      // Neither does a logger of theirs.
    }
    return undefined
  }
}
