import { diag, DiagLogLevel, type MeterProvider } from '@opentelemetry/api'
import { BasicTracerProvider, type Sampler, type SpanProcessor } from '@opentelemetry/sdk-trace-base'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { instrument } from '../../src/adapters/opentelemetry/instrument.ts'
import * as small from '../models/small.ts'
import { loadNumber, one, step } from '../pipelines/arithmetic.ts'
import { ownEngine } from '../support/open.ts'

const places = ['sampler', 'onStart', 'onEnd', 'record'] as const

/** Providers that throw in one place, once they are told to. */
function throwing(place: (typeof places)[number]) {
  const state = { armed: false }
  const may = (here: (typeof places)[number]) => {
    if (state.armed && here === place) throw new Error(`thrown by ${here}`)
  }
  const processor: SpanProcessor = {
    onStart: () => may('onStart'),
    onEnd: () => may('onEnd'),
    forceFlush: async () => {},
    shutdown: async () => {},
  }
  const sampler = { shouldSample: () => (may('sampler'), { decision: 2 }), toString: () => 'all' } as Sampler
  const histogram = { record: () => may('record') }
  const meter = {
    createHistogram: () => histogram,
    createObservableGauge: () => ({}),
    addBatchObservableCallback() {},
    removeBatchObservableCallback() {},
  }
  const meterProvider = { getMeter: () => meter } as unknown as MeterProvider
  return {
    state,
    tracerProvider: new BasicTracerProvider({ spanProcessors: [processor], sampler }),
    meterProvider,
  }
}

afterEach(() => diag.disable())

describe.each(places)('what throws in OpenTelemetry: %s', (place) => {
  it('leaves requests, pipelines and statistics as they are, and is told to diag', async () => {
    const error = vi.fn()
    diag.setLogger({ error, warn() {}, info() {}, debug() {}, verbose() {} }, DiagLogLevel.ERROR)
    const { state, ...providers } = throwing(place)
    const engine = ownEngine({ cpuWorkers: 1 })
    instrument(engine, providers)
    const model = await engine.load('identity', { path: small.identity('float32'), maxBatchSize: 4 })
    await loadNumber(engine, 'twice', (x) => 2 * x)
    const line = await engine.loadPipeline('line', {
      inputs: ['x'],
      steps: [step('twice', 'x', 'y')],
      outputs: ['y'],
    })
    state.armed = true
    const row = () => ({ x: Float32Array.of(1, 2, 3, 4) })
    const answers = await Promise.all([model.infer(row()), model.infer(row()), model.infer(row())])
    expect(answers.map(({ y }) => (y as { data: unknown }).data)).toEqual(Array(3).fill(row().x))
    await line.infer({ x: one(1) })
    const withdrawn = await model
      .infer(row(), { signal: AbortSignal.abort('no more') })
      .catch((reason: unknown) => reason)
    expect(withdrawn).toBe('no more')
    const { inferenceStats, refusals } = model.stats()
    expect([inferenceStats.success.count, inferenceStats.fail.count, refusals.cancelled]).toEqual([3, 0, 1])
    expect(error).toHaveBeenCalledWith(
      expect.stringContaining('zerohop'),
      expect.objectContaining({ message: `thrown by ${place}` }),
    )
    await engine.close()
  })
})
