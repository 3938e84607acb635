import { context, ROOT_CONTEXT, SpanStatusCode, trace, type Span } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  AlwaysOffSampler,
  BasicTracerProvider,
  InMemorySpanExporter,
  ParentBasedSampler,
  SamplingDecision,
  SimpleSpanProcessor,
  type ReadableSpan,
  type Sampler,
} from '@opentelemetry/sdk-trace-base'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { InferenceEngine } from '../../src/index.ts'
import { instrument } from '../../src/adapters/opentelemetry/instrument.ts'
import { rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { load, ownEngine } from '../support/open.ts'

beforeAll(() => void context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()))
afterAll(() => context.disable())

const row = () => ({ x: new Float32Array(4) })
const idOf = (span: ReadableSpan | Span) => span.spanContext().spanId
const linked = (span: ReadableSpan) => span.links.map((link) => link.context.spanId).sort()

function instrumented(engine: InferenceEngine, sampler?: Sampler) {
  const exporter = new InMemorySpanExporter()
  const tracerProvider = new BasicTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(exporter)],
    ...(sampler && { sampler }),
  })
  const instrumentation = instrument(engine, { tracerProvider, meterProvider: false })
  const named = (name: string) => exporter.getFinishedSpans().filter((span) => span.name === name)
  return {
    named,
    tracer: tracerProvider.getTracer('test'),
    all: () => exporter.getFinishedSpans(),
    instrumentation,
  }
}

describe('spans of an engine', () => {
  it('of requests are children of their callers and linked with the batch that they share, as that is with them', async () => {
    const engine = ownEngine()
    const { named, tracer } = instrumented(engine)
    const model = await load(engine, small.identity('float32'), {
      maxBatchSize: 4,
      dynamicBatching: { holdUntilQueued: 3 },
    })
    const callers = ['a', 'b', 'c'].map((name) => tracer.startSpan(name))
    await Promise.all(
      callers.map((caller, index) =>
        context.with(trace.setSpan(ROOT_CONTEXT, caller), () =>
          model.infer(row(), { requestId: `request ${index}` }),
        ),
      ),
    )
    const requests = named(`infer ${model.name}`)
    const [batch, ...others] = named(`batch ${model.name}`)
    expect(others).toEqual([])
    expect(requests.map((span) => span.parentSpanContext?.spanId).sort()).toEqual(callers.map(idOf).sort())
    expect(requests.map((span) => span.attributes['zerohop.request.id']).sort()).toEqual([
      'request 0',
      'request 1',
      'request 2',
    ])
    expect(batch!.parentSpanContext).toBeUndefined()
    expect(linked(batch!)).toEqual(requests.map(idOf).sort())
    for (const request of requests) expect(linked(request)).toEqual([idOf(batch!)])
    expect(batch!.attributes).toMatchObject({
      'zerohop.rows': 3,
      'zerohop.batch.requests': 3,
      'zerohop.model.name': model.name,
      'zerohop.model.version': 1,
    })
    expect(batch!.events.map(({ name }) => name)).toEqual(['gathered', 'run began', 'run ended'])
    const ms = (time: [number, number]) => time[0] * 1000 + time[1] / 1e6
    for (const request of requests)
      expect(ms(batch!.startTime)).toBeGreaterThanOrEqual(ms(request.startTime) - 0.01)
    expect(Math.abs(ms(batch!.startTime) - Date.now())).toBeLessThan(60_000)
  })

  it("of a batch of one request is that one's child", async () => {
    const engine = ownEngine()
    const { named } = instrumented(engine)
    const model = await load(engine, small.identity('float32'))
    await model.infer(row())
    const [[request], [batch]] = [named(`infer ${model.name}`), named(`batch ${model.name}`)]
    expect(batch!.parentSpanContext?.spanId).toBe(idOf(request!))
    expect(request!.links).toEqual([])
  })

  it('leave what follows an answer in the context of its caller', async () => {
    const engine = ownEngine()
    const { tracer } = instrumented(engine)
    const model = await load(engine, small.identity('float32'), { maxBatchSize: 8 })
    const seen = await Promise.all(
      Array.from({ length: 8 }, (_, index) => {
        const span = tracer.startSpan(`caller ${index}`)
        return context.with(trace.setSpan(ROOT_CONTEXT, span), async () => {
          await model.infer(row())
          return trace.getActiveSpan() === span
        })
      }),
    )
    expect(seen).toEqual(Array(8).fill(true))
  })

  it('go by the clock of their callers, also after it was set', async () => {
    const engine = ownEngine()
    const { named, tracer } = instrumented(engine)
    const model = await load(engine, small.identity('float32'))
    for (const hours of [5, -2, 0]) {
      const { now } = Date
      vi.spyOn(Date, 'now').mockImplementation(() => now() + hours * 3_600_000)
      onTestFinished(() => void vi.restoreAllMocks())
      const caller = tracer.startSpan('caller')
      await context.with(trace.setSpan(ROOT_CONTEXT, caller), () => model.infer(row()))
      caller.end()
      vi.restoreAllMocks()
    }
    const seconds = (name: string) => named(name).map(({ startTime }) => startTime[0])
    for (const name of [`infer ${model.name}`, `batch ${model.name}`]) {
      for (const [index, startedAt] of seconds(name).entries())
        expect(Math.abs(startedAt - seconds('caller')[index]!)).toBeLessThan(60)
    }
  })

  it('of batches are begun only while somebody will tell of their end', async () => {
    const engine = ownEngine()
    const [left, kept] = [instrumented(engine), instrumented(engine)]
    const model = await load(engine, small.identity('float32'), {
      maxBatchSize: 4,
      dynamicBatching: { holdUntilQueued: 2 },
    })
    const first = model.infer(row())
    left.instrumentation.disable()
    await Promise.all([first, model.infer(row())])
    expect(left.all().map(({ name, links }) => [name, links])).toEqual([[`infer ${model.name}`, []]])
    expect(kept.named(`batch ${model.name}`).length).toBe(1)
  })

  it('say what failed, and why', async () => {
    const engine = ownEngine()
    const { named } = instrumented(engine)
    const model = await load(engine, small.gatherRow(), { warmup: false })
    await rejectionOf(() =>
      model.infer({ index: new BigInt64Array([99n]) }).catch(async (error: unknown) => Promise.reject(error)),
    )
    const withdrawn = new AbortController()
    const held = await load(engine, small.identity('float32'), {
      maxBatchSize: 4,
      dynamicBatching: { holdUntilQueued: 4 },
    })
    const waiting = rejectionOf(() => held.infer(row(), { signal: withdrawn.signal }))
    withdrawn.abort(new Error('no more'))
    await waiting
    const [failed] = named(`infer ${model.name}`)
    expect(failed!.status.code).toBe(SpanStatusCode.ERROR)
    expect(failed!.attributes['error.type']).toBe('ERR_EXECUTION')
    expect(named(`batch ${model.name}`)[0]!.status.code).toBe(SpanStatusCode.ERROR)
    const [cancelled] = named(`infer ${held.name}`)
    expect(cancelled!.attributes['error.type']).toBe('cancelled')
    expect(named(`batch ${held.name}`)).toEqual([])
  })

  it('of a pipeline have those of its steps below them', async () => {
    const engine = ownEngine()
    const { named } = instrumented(engine)
    const [first, second] = [
      await load(engine, small.identity('float32')),
      await load(engine, small.identity('float32')),
    ]
    const pipeline = await engine.loadPipeline('two', {
      inputs: [{ name: 'x', type: 'float32', dims: [4] }],
      outputs: [{ name: 'y', type: 'float32', dims: [4] }],
      steps: [
        { model: first.name, inputs: { x: 'x' }, outputs: { y: 'between' } },
        { model: second.name, inputs: { x: 'between' }, outputs: { y: 'y' } },
      ],
    })
    await pipeline.infer(row())
    const [whole] = named('infer two')
    for (const { name } of [first, second])
      expect(named(`infer ${name}`).map((span) => span.parentSpanContext?.spanId)).toEqual([idOf(whole!)])
  })

  it('of batches are there for each request that is sampled, however few traces are', async () => {
    const engine = ownEngine()
    const few = {
      shouldSample: (_: unknown, __: string, name: string) => ({
        decision: name.startsWith('batch')
          ? SamplingDecision.NOT_RECORD
          : SamplingDecision.RECORD_AND_SAMPLED,
      }),
      toString: () => 'few',
    }
    const { named } = instrumented(engine, new ParentBasedSampler({ root: few }))
    const model = await load(engine, small.identity('float32'), {
      maxBatchSize: 4,
      dynamicBatching: { holdUntilQueued: 3 },
    })
    await Promise.all([model.infer(row()), model.infer(row()), model.infer(row())])
    const [batch, ...others] = named(`batch ${model.name}`)
    const requests = named(`infer ${model.name}`)
    expect(others).toEqual([])
    expect(batch!.parentSpanContext?.spanId).toBe(idOf(requests[0]!))
    expect(requests.map(linked)).toEqual(Array(3).fill([idOf(batch!)]))
    expect(linked(batch!)).toEqual(requests.map(idOf).sort())
  })

  it('are none where nothing is sampled, and none once it is disabled', async () => {
    const engine = ownEngine()
    const off = instrumented(engine, new AlwaysOffSampler())
    const on = instrumented(engine)
    const model = await load(engine, small.identity('float32'))
    await model.infer(row())
    expect(off.all()).toEqual([])
    expect(on.all().length).toBe(2)
    on.instrumentation.disable()
    on.instrumentation.disable()
    await model.infer(row())
    expect(on.all().length).toBe(2)
  })
})
