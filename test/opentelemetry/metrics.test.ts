import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { InferenceEngine } from '../../src/index.ts'
import { instrument } from '../../src/adapters/opentelemetry/instrument.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { load, ownEngine } from '../support/open.ts'

const row = () => ({ x: new Float32Array(4) })

function measured(engine: InferenceEngine) {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 1e6 })
  const meterProvider = new MeterProvider({ readers: [reader] })
  onTestFinished(() => meterProvider.shutdown())
  const instrumentation = instrument(engine, { meterProvider, tracerProvider: false })
  const collect = async () => {
    exporter.reset()
    await reader.forceFlush()
    const metrics = exporter
      .getMetrics()
      .flatMap(({ scopeMetrics }) => scopeMetrics)
      .flatMap((scope) => scope.metrics)
    return new Map(metrics.map(({ descriptor, dataPoints }) => [descriptor.name, dataPoints]))
  }
  return { collect, instrumentation }
}

describe('metrics of an engine', () => {
  it('count requests by how they ended, and runs by their rows', async () => {
    const engine = ownEngine()
    const { collect } = measured(engine)
    const model = await load(engine, small.identity('float32'), {
      maxBatchSize: 4,
      dynamicBatching: { holdUntilQueued: 4 },
    })
    const withdrawn = AbortSignal.abort(new Error('no more'))
    await rejectionOf(() => model.infer(row(), { signal: withdrawn }))
    await Promise.all(Array.from({ length: 4 }, () => model.infer(row())))
    const metrics = await collect()
    const own = { 'zerohop.model.name': model.name, 'zerohop.model.version': 1 }
    const durations = metrics.get('zerohop.request.duration')!
    expect(
      durations.map(({ attributes, value }) => [attributes, (value as { count: number }).count]),
    ).toContainEqual([own, 4])
    const [size] = metrics.get('zerohop.batch.size')!
    expect(size).toMatchObject({
      attributes: { ...own, 'zerohop.batch.reason': 'full' },
      value: { count: 1, sum: 4 },
    })
    expect(metrics.get('zerohop.queue.duration')).toMatchObject([{ attributes: own, value: { count: 4 } }])
    expect(metrics.get('zerohop.batch.duration')).toMatchObject([{ value: { count: 1 } }])
    expect(metrics.get('zerohop.instances')).toMatchObject([{ attributes: own, value: 1 }])
    expect(metrics.get('zerohop.requests.pending')).toMatchObject([{ attributes: own, value: 0 }])
    expect(metrics.get('zerohop.staging.used')!.length).toBe(1)
  })

  it('of engines that report to one provider differ by the attributes that they are given', async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 1e6 })
    const meterProvider = new MeterProvider({ readers: [reader] })
    onTestFinished(() => meterProvider.shutdown())
    for (const instances of [1, 2]) {
      const engine = ownEngine()
      instrument(engine, {
        meterProvider,
        tracerProvider: false,
        attributes: { 'zerohop.engine': `of ${instances}` },
      })
      const model = await engine.load('same', {
        path: small.identity('float32'),
        instanceGroup: [{ kind: 'cpu', count: instances }],
      })
      await model.infer(row())
    }
    await reader.forceFlush()
    const metrics = exporter
      .getMetrics()
      .flatMap(({ scopeMetrics }) => scopeMetrics)
      .flatMap((scope) => scope.metrics)
    for (const [name, values] of [
      ['zerohop.instances', [1, 2]],
      ['zerohop.request.duration', [1, 1]],
    ] as const) {
      const points = metrics.find(({ descriptor }) => descriptor.name === name)!.dataPoints
      expect(points.map(({ attributes }) => attributes['zerohop.engine'])).toEqual(['of 1', 'of 2'])
      expect(points.map(({ value }) => (typeof value === 'number' ? value : value.count))).toEqual(values)
    }
  })

  it('are read of a closed engine without harm, and are none once it is disabled', async () => {
    const engine = ownEngine()
    const { collect, instrumentation } = measured(engine)
    const model = await load(engine, small.identity('float32'))
    await model.infer(row())
    await engine.close()
    const metrics = await collect()
    expect(metrics.get('zerohop.request.duration')).toMatchObject([{ value: { count: 1 } }])
    expect(metrics.get('zerohop.instances') ?? []).toEqual([])
    instrumentation.disable()
    const asked = vi.spyOn(engine, 'stats')
    await collect()
    expect(asked).not.toHaveBeenCalled()
  })

  it('are refused for what is no engine', () => {
    try {
      instrument({} as InferenceEngine)
      expect.fail('was not refused')
    } catch (error) {
      expectRefusal(error, { argument: 'engine', expected: /an InferenceEngine/ })
    }
  })

  it.each([
    ['tracerProvider', 3, /a TracerProvider of OpenTelemetry, or false/],
    ['meterProvider', {}, /a MeterProvider of OpenTelemetry, or false/],
    ['attributes', 5, /an object/],
    ['metrics', true, /one of tracerProvider, meterProvider, attributes/],
  ])('are refused for %s: %j, and nothing is reported', (option, value, expected) => {
    try {
      instrument(ownEngine(), { [option]: value } as never)
      expect.fail('was not refused')
    } catch (error) {
      expectRefusal(error, { argument: `options.${option}`, expected })
    }
  })
})
