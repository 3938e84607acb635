import {
  ValueType,
  type Attributes,
  type Histogram,
  type Meter,
  type MetricOptions,
  type ObservableGauge,
} from '@opentelemetry/api'
import type { InferenceEngine } from '../../engine.ts'
import type {
  ObservedBatch,
  ObservedModel,
  ObservedRun,
  RequestFacts,
  RequestObservation,
  RequestObserver,
} from '../../observe/request-observer.ts'
import { modelAttributes } from './engine-spans.ts'

const seconds = {
  unit: 's',
  advice: {
    explicitBucketBoundaries: [
      0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ],
  },
}
const rows = {
  unit: '{row}',
  valueType: ValueType.INT,
  advice: { explicitBucketBoundaries: [1, 2, 4, 8, 16, 32, 64, 128, 256] },
}

/**
 * Records metrics of requests and batches as they end, and reads the state of the engine when metrics are
 * collected.
 */
export class EngineMetrics implements RequestObserver {
  readonly #meter: Meter
  readonly #own: Attributes
  readonly #engine: WeakRef<InferenceEngine>
  readonly #request: Histogram
  readonly #queue: Histogram
  readonly #run: Histogram
  readonly #size: Histogram
  readonly #pending: ObservableGauge
  readonly #instances: ObservableGauge
  readonly #staging: ObservableGauge
  readonly #attributes = new WeakMap<ObservedModel, Attributes>()

  /** @param own attributes of all metrics. */
  constructor(meter: Meter, engine: InferenceEngine, own: Attributes) {
    this.#meter = meter
    this.#own = own
    this.#engine = new WeakRef(engine) // measuring does not keep an engine alive
    const histogram = (name: string, description: string, of: MetricOptions) =>
      meter.createHistogram(name, { description, ...of })
    this.#request = histogram('zerohop.request.duration', 'From infer() to its end.', seconds)
    this.#queue = histogram('zerohop.queue.duration', 'Waiting until the run of a request began.', seconds)
    this.#run = histogram('zerohop.batch.duration', 'Runs: gathering, inference, handing out.', seconds)
    this.#size = histogram('zerohop.batch.size', 'Rows of runs.', rows)
    const gauge = (name: string, description: string, unit: string) =>
      meter.createObservableGauge(name, { description, unit, valueType: ValueType.INT })
    this.#pending = gauge(
      'zerohop.requests.pending',
      'Requests accepted and not yet started, and answers that wait for earlier ones.',
      '{request}',
    )
    this.#instances = gauge('zerohop.instances', 'Instances that serve.', '{instance}')
    this.#staging = gauge('zerohop.staging.used', 'Staging memory in use.', 'By')
    meter.addBatchObservableCallback(this.#collect, this.#gauges)
  }

  get #gauges(): ObservableGauge[] {
    return [this.#pending, this.#instances, this.#staging]
  }

  /** Stops reading the engine. */
  end(): void {
    this.#meter.removeBatchObservableCallback(this.#collect, this.#gauges)
  }

  begun(model: ObservedModel, { atMs }: RequestFacts): RequestObservation {
    const attributes = this.#attributesOf(model)
    let waitedMs = Infinity // until its run, or that of its first part, has begun
    return {
      child: (inner, facts) => this.begun(inner, facts),
      ran: ({ queuedAtMs, begunAtMs, batch }: ObservedRun) => {
        if (batch.error === null) waitedMs = Math.min(waitedMs, begunAtMs - queuedAtMs)
      },
      shared: ({ begunAtMs }) => void (waitedMs = begunAtMs - atMs),
      passed: (begunAtMs) => void (waitedMs = begunAtMs - atMs),
      ended: (succeeded, reason) => {
        const { code } = (reason ?? {}) as { code?: unknown }
        const failure = succeeded ? {} : { 'error.type': typeof code === 'string' ? code : 'cancelled' }
        this.#request.record((performance.now() - atMs) / 1000, { ...attributes, ...failure })
        if (succeeded && waitedMs !== Infinity) this.#queue.record(Math.max(0, waitedMs) / 1000, attributes)
      },
    }
  }

  batchEnded({ model, rows, reason, moments }: ObservedBatch): void {
    if (moments === null) return
    const attributes = { ...this.#attributesOf(model), 'zerohop.batch.reason': reason }
    this.#size.record(rows, attributes)
    this.#run.record((moments.doneAtMs - moments.takenAtMs) / 1000, attributes)
  }

  readonly #collect: Parameters<Meter['addBatchObservableCallback']>[0] = (result) => {
    const engine = this.#engine.deref()
    if (engine === undefined) return this.end()
    const stats = engine.stats()
    for (const { name, state } of engine.models()) {
      if (state === 'closed') continue
      for (const [version, { pendingRequestCount, instanceCount }] of Object.entries(
        stats.models[name]?.versions ?? {},
      )) {
        const attributes = { ...this.#own, ...modelAttributes({ name, version: Number(version) }) }
        result.observe(this.#pending, pendingRequestCount, attributes)
        result.observe(this.#instances, instanceCount, attributes)
      }
    }
    for (const [kind, pool] of [
      ['models', stats.staging],
      ['functions', stats.functionStaging],
    ] as const) {
      if (pool !== null)
        result.observe(this.#staging, pool.usedBytes, { ...this.#own, 'zerohop.staging.of': kind })
    }
  }

  #attributesOf(model: ObservedModel): Attributes {
    let attributes = this.#attributes.get(model)
    if (attributes === undefined)
      this.#attributes.set(model, (attributes = { ...this.#own, ...modelAttributes(model) }))
    return attributes
  }
}
