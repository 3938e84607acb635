import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
  type DataPoint,
  type Histogram,
} from '@opentelemetry/sdk-metrics'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { Registry } from 'prom-client'
import { expect, it, onTestFinished } from 'vitest'
import {
  Tensor,
  type BatchMessage,
  type Feeds,
  type InferOptions,
  type Model,
  type ModelStatistics,
  type RejectionReason,
  type RequestMessage,
} from '../../src/index.ts'
import { instrument } from '../../src/adapters/opentelemetry/instrument.ts'
import { prometheusMetrics } from '../../src/adapters/prometheus/prometheus-metrics.ts'
import { fixture } from '../functions/load-function.ts'
import { accumulator } from '../models/accumulator.ts'
import { mulberry32 } from '../models/random.ts'
import * as small from '../models/small.ts'
import { loadNumber, one, step } from '../pipelines/arithmetic.ts'
import { exposed } from '../prometheus/exposition.ts'
import { accumulatorSequence } from '../sequences/accumulators.ts'
import { repetitions } from '../support/full.ts'
import { ownEngine } from '../support/open.ts'
import { inParallel } from '../support/shared.ts'

const requests = repetitions(2000, 1000)
const codes: Partial<Record<RejectionReason, string>> = {
  queueFull: 'ERR_QUEUE_FULL', timeout: 'ERR_TIMEOUT', deadline: 'ERR_DEADLINE', execution: 'ERR_EXECUTION', crashed: 'ERR_INSTANCE_CRASHED', sequenceEnded: 'ERR_SEQUENCE_ENDED',
} // prettier-ignore

const rows = (count: number, value: number) => ({
  x: new Tensor('float32', new Float32Array(4 * count).fill(value), [count, 4]),
})
const indices = (count: number, at: () => number) => ({
  index: new Tensor(
    'int64',
    BigInt64Array.from({ length: count }, () => BigInt(at())),
    [count, 1],
  ),
})
const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)

/** How the requests of a model ended that came to be requests, as its statistics have it. */
function endsOf({ inferenceStats, rejections, refusals }: ModelStatistics): Record<string, number> {
  const failed = Object.entries(codes).map(
    ([why, code]) => [code, rejections[why as RejectionReason]] as const,
  )
  const all = [
    ['answered', inferenceStats.success.count] as const,
    ['cancelled', rejections.cancelled + refusals.cancelled] as const,
    ...failed,
  ]
  return Object.fromEntries(all.filter(([, count]) => count > 0))
}

function countedBy<T>(all: readonly T[], keyOf: (one: T) => string): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const each of all) counts[keyOf(each)] = (counts[keyOf(each)] ?? 0) + 1
  return counts
}

/** What is heard on a channel, until the end of the test. */
function heard<T>(name: string): T[] {
  const messages: T[] = []
  const listener = (message: unknown) => void messages.push(message as T)
  subscribe(name, listener)
  onTestFinished(() => void unsubscribe(name, listener))
  return messages
}

it(
  'channels, spans and metrics tell of each request and batch what statistics have counted, and counters of Prometheus never go back',
  { timeout: 60_000 },
  async () => {
    const engine = ownEngine({ cpuWorkers: 2 })
    const random = mulberry32(7)
    const spans = new InMemorySpanExporter()
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 1e6 })
    const meterProvider = new MeterProvider({ readers: [reader] })
    onTestFinished(() => meterProvider.shutdown())
    instrument(engine, {
      tracerProvider: new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }),
      meterProvider,
    })
    const [told, batches] = [heard<RequestMessage>('zerohop:request'), heard<BatchMessage>('zerohop:batch')]
    const register = new Registry()
    prometheusMetrics(engine, { register })

    const called: { model: Model; call(): { feeds: Feeds; options?: InferOptions } }[] = []
    const instanceGroup = [{ kind: 'cpu', count: 2 }] as const
    const sessionOptions = { logSeverityLevel: 4 } as const
    const rowsOrOut = () => indices(1 + Math.floor(12 * random() ** 4), () => (random() < 0.02 ? 99 : 1))
    const add = (model: unknown, call: (typeof called)[number]['call']) =>
      called.push({ model: model as Model, call })
    add(
      await engine.load('plain', {
        path: small.identity('float32'),
        maxBatchSize: 8,
        splitOversized: true,
        instanceGroup,
      }),
      () => ({ feeds: rows(1 + Math.floor(30 * random() ** 4), random()) }),
    )
    for (const preserveOrdering of [false, true]) {
      const config = {
        path: small.gatherRow(),
        maxBatchSize: 4,
        splitOversized: true,
        instanceGroup,
        dynamicBatching: { preserveOrdering },
        sessionOptions,
      }
      add(await engine.load(`rows-${preserveOrdering}`, config), () => ({ feeds: rowsOrOut() }))
      add(
        await engine.load(`cached-${preserveOrdering}`, { ...config, responseCache: { maxBytes: 3000 } }),
        () => ({ feeds: rowsOrOut() }),
      )
    }
    add(
      await engine.load('stream', {
        path: accumulator(),
        maxBatchSize: 8,
        checkRows: false,
        sequence: accumulatorSequence,
      }),
      () => {
        return {
          feeds: { x: one(random()) },
          options: {
            sequenceId: 1 + Math.floor(40 * random()),
            sequenceStart: random() < 0.5,
            sequenceEnd: random() < 0.2,
          },
        }
      },
    )
    const mayThrow = (x: number) => {
      if (x > 0.95) throw new RangeError('too much')
      return x
    }
    add(await loadNumber(engine, 'throwing', mayThrow, 8), () => ({ feeds: { x: one(random()) } }))
    add(
      await engine.loadFunction('dying', {
        module: fixture('misbehaving.mjs'),
        maxBatchSize: 2,
        dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 4 } },
        inputs: [{ name: 'x', type: 'int32', dims: [] }],
        outputs: [{ name: 'y', type: 'int32', dims: [] }],
      }),
      () => ({
        feeds: { x: Int32Array.of(random() < 0.01 ? -4 : 1) },
        options: random() < 0.01 ? { maxRunMs: 20 } : {},
      }),
    )
    await loadNumber(engine, 'inner step', (x) => -x)
    await engine.loadPipeline('inner', {
      inputs: ['x'],
      steps: [step('inner step', 'x', 'y')],
      outputs: ['y'],
    })
    const both = {
      inputs: ['x'],
      steps: [step('throwing', 'x', 'same'), step('inner', 'x', 'minus')],
      outputs: ['same', 'minus'],
      maxInFlight: 16,
    }
    add(await engine.loadPipeline('outer', both), () => ({ feeds: { x: one(random()) } }))

    const before = new Map<string, number>()
    const gone: string[] = []
    const scrape = async () => {
      for (const [name, { type, samples }] of exposed(await register.metrics())) {
        if (type === 'gauge' && name.startsWith('zerohop_')) continue
        for (const [series, value] of samples) {
          if (type !== 'gauge' && value < (before.get(series) ?? 0))
            gone.push(`${series} from ${before.get(series)} to ${value}`)
          before.set(series, value)
        }
      }
    }
    await inParallel(
      64,
      Array.from({ length: requests }, (_, index) => index),
      async (index) => {
        const { model, call } = called[Math.floor(random() * called.length)]!
        const { feeds, options } = call()
        const how = random()
        const controller = new AbortController()
        const abort = () =>
          controller.abort(Object.assign(new Error('no more'), { code: 'ERR_OF_THE_CALLER' }))
        if (how < 0.02) abort()
        else if (how < 0.04) queueMicrotask(abort)
        else if (how < 0.06) setImmediate(abort)
        const limits =
          how < 0.06
            ? { signal: controller.signal }
            : how < 0.09
              ? { timeoutMs: 0.01 + random() }
              : how < 0.12
                ? { deadlineMs: 0.01 + random() }
                : {}
        await model.infer(how > 0.99 ? { nothing: [] } : feeds, { ...options, ...limits }).catch(() => {})
        if (index % 250 === 0) await scrape()
      },
    )
    await Promise.all(engine.models().map(async (model) => model.scale({ count: 1 }).catch(() => {}))) // and what was stopped has ended
    await scrape()
    expect(gone).toEqual([])

    await reader.forceFlush()
    const metrics = new Map(
      exporter
        .getMetrics()
        .flatMap(({ scopeMetrics }) => scopeMetrics)
        .flatMap((scope) => scope.metrics)
        .map(({ descriptor, dataPoints }) => [descriptor.name, dataPoints]),
    )
    for (const { name } of engine.models()) {
      const stats = engine.stats().models[name]!
      const ends = endsOf(stats)
      const own = told.filter(({ model }) => model === name)
      const runs = batches.filter(({ model }) => model === name)
      const points = (metric: string) =>
        (metrics.get(metric) as DataPoint<Histogram>[]).filter(
          ({ attributes }) => attributes['zerohop.model.name'] === name,
        )
      const count = (metric: string) => sum(points(metric).map(({ value }) => value.count))
      const ended = own.filter(({ type }) => type === 'ended')
      const endOf = ({ succeeded, error }: RequestMessage) =>
        succeeded ? 'answered' : ((error as { code?: string } | undefined)?.code ?? 'cancelled')
      const types = (metric: string) =>
        Object.fromEntries(
          points(metric).map(({ attributes, value }) => [
            attributes['error.type'] ?? 'answered',
            value.count,
          ]),
        )
      const recorded = spans.getFinishedSpans().filter((span) => span.name === `infer ${name}`)
      expect({
        name,
        channel: countedBy(ended, endOf),
        metrics: types('zerohop.request.duration'),
        spans: countedBy(recorded, ({ attributes }) => String(attributes['error.type'] ?? 'answered')),
      }).toEqual({ name, channel: ends, metrics: ends, spans: ends })
      expect(new Set(ended.map(({ id }) => id))).toEqual(
        new Set(own.filter(({ type }) => type === 'begun').map(({ id }) => id)),
      )
      expect(count('zerohop.queue.duration')).toBe(stats.inferenceStats.success.count)
      if (stats.steps !== undefined) continue
      const byType = (type: string) =>
        runs
          .filter((run) => run.type === type)
          .map(({ id }) => id)
          .sort((a, b) => a - b)
      expect(byType('ended')).toEqual(byType('began'))
      const answered = runs.filter(({ type, error }) => type === 'ended' && error === null)
      expect([answered.length, sum(answered.map((run) => run.rows)), count('zerohop.batch.size')]).toEqual([
        stats.executionCount,
        stats.inferenceCount,
        stats.executionCount,
      ])
    }
    const known = new Set(spans.getFinishedSpans().map((span) => span.spanContext().spanId))
    const related = spans
      .getFinishedSpans()
      .flatMap(({ links, parentSpanContext }) => [
        ...links.map((link) => link.context),
        ...(parentSpanContext === undefined ? [] : [parentSpanContext]),
      ])
    expect(related.filter(({ spanId }) => !known.has(spanId))).toEqual([])
  },
)
