import { describe, expect, it } from 'vitest'
import { Tensor, type ModelStatistics } from '../../../../src/index.ts'
import { type ModelSummary, summarize, summaryText } from '../../src/trace-files/model-summary.ts'
import { loadNumber, one, step } from '../../../../test/pipelines/arithmetic.ts'
import { identity } from '../../../../test/models/small.ts'
import { tracedEngine } from '../../../../test/tracing/traced-engine.ts'
import { tritonTraces } from './triton-traces.ts'

/** What the statistics have for the same averages, in microseconds. */
function averagesOf({ inferenceStats }: ModelStatistics) {
  const { success, queue, computeInput, computeInfer, computeOutput } = inferenceStats
  const perRequest = (ns: number) => ns / success.count / 1000
  return {
    traceCount: success.count, handlerUs: perRequest(success.ns), queueUs: perRequest(queue.ns),
    inputUs: perRequest(computeInput.ns), inferUs: perRequest(computeInfer.ns), outputUs: perRequest(computeOutput.ns),
  } // prettier-ignore
}

function shown({ traceCount, handlerUs, parts, compute }: ModelSummary) {
  return { traceCount, handlerUs, queueUs: parts!.queueUs, ...compute! }
}

/**
 * Each figure but for the rounding of its timestamps, of which there are two or three a request. The whole of a request may differ by more: the statistics
 * have it no shorter than its parts, one of which is of a worker's clock.
 */
function expectEqual(summary: ModelSummary, stats: ModelStatistics): void {
  const expected = averagesOf(stats)
  for (const [name, value] of Object.entries(shown(summary))) {
    const other = expected[name as keyof typeof expected]
    expect(Math.abs(value - other), `${name}: ${value}, ${other}`).toBeLessThanOrEqual(
      name === 'handlerUs' ? 0.05 * other : 0.005,
    )
  }
  const { overheadUs, queueUs, computeUs } = summary.parts!
  expect(overheadUs + queueUs + computeUs).toBeCloseTo(summary.handlerUs, 2)
}

const row = (value: number, rows = 1) => ({
  x: new Tensor('float32', new Float32Array(4 * rows).fill(value), [rows, 4]),
})

describe('the summary of traces', () => {
  it.each([
    ['native', {}],
    ['inline', { inline: { maxUs: 1e6, loopShare: 1 } }],
  ])('is what the statistics say of the same requests (%s)', async (_, options) => {
    const { engine, traces } = tracedEngine({}, options)
    const model = await engine.load('m', {
      path: identity('float32'),
      instanceGroup: [{ count: 2 }],
      version: 2,
    })
    for (let round = 0; round < 20; round++)
      await Promise.all(
        Array.from({ length: 1 + (round % 7) }, (__, index) => model.infer(row(index, 1 + (index % 2)))),
      )
    const all = summarize(await traces())
    expect(all).toHaveLength(1)
    expect(all[0]).toMatchObject({ model: 'm', version: 2, frontend: null, failures: {} })
    expectEqual(all[0]!, model.stats())
  })

  it('is so where requests are split, and fail, and are withdrawn', async () => {
    const { engine, traces } = tracedEngine()
    const model = await engine.load('m', {
      path: identity('float32'),
      maxBatchSize: 4,
      splitOversized: true,
      rejectNonFinite: 'outputs',
    })
    for (let round = 0; round < 20; round++) {
      const failing = model.infer(row(NaN)).catch(() => {})
      await Promise.all([
        model.infer(row(1, 9)),
        failing,
        model.infer(row(2)),
        model.infer(row(3), { signal: AbortSignal.abort() }).catch(() => {}),
      ])
    }
    const [summary] = summarize(await traces())
    expect(summary!.failures).toEqual({ ERR_EXECUTION: 20, cancelled: 20 })
    expect(model.stats().rejections).toMatchObject({ execution: 20 })
    const expected = averagesOf(model.stats()) // the end of the last part apart, for which the clock is read twice
    const { handlerUs, ...parts } = shown(summary!)
    for (const [name, value] of Object.entries(parts))
      expect(Math.abs(value - expected[name as keyof typeof parts]), name).toBeLessThanOrEqual(0.005)
    expect(handlerUs).toBeGreaterThan(summary!.parts!.queueUs)
  })

  it('is so where answers are shared', async () => {
    const { engine, traces } = tracedEngine()
    const model = await engine.load('m', { path: identity('float32'), responseCache: true })
    for (let round = 0; round < 20; round++)
      await Promise.all(Array.from({ length: 5 }, (_, index) => model.infer(row((round + index) >> 1))))
    const [summary] = summarize(await traces())
    const { responseCache } = model.stats()
    expect(summary).toMatchObject({
      traceCount: 100,
      cachedCount: responseCache!.hits,
      coalescedCount: responseCache!.coalesced,
    })
    expect(Math.abs(summary!.compute!.inferUs - averagesOf(model.stats()).inferUs)).toBeLessThan(0.005)
  })

  it('is so for a pipeline and its steps', async () => {
    const { engine, traces } = tracedEngine()
    for (const name of ['a', 'b']) await loadNumber(engine, name, (x) => x)
    const pipeline = await engine.loadPipeline('p', {
      inputs: ['x'],
      steps: [step('a', 'x', 'y'), step('b', 'y', 'z')],
      outputs: ['z'],
    })
    for (let round = 0; round < 20; round++)
      await Promise.all(Array.from({ length: 3 }, (_, index) => pipeline.infer({ x: one(index) })))
    const all = summarize(await traces())
    expect(all.map(({ model, traceCount }) => [model, traceCount])).toEqual([
      ['p', 60],
      ['a', 60],
      ['b', 60],
    ])
    for (const summary of all) expectEqual(summary, engine.model(summary.model).stats())
  })

  it("of Triton's own files has their frontends, in the layout of its tool", () => {
    const all = summarize(tritonTraces())
    expect(all.map(summaryText).join('')).toBe(`Summary for simple (1): trace count = 1
HTTP infer request (avg): 403.6us
	Receive (avg): 20.6us
	Send (avg): 4.5us
	Overhead (avg): 24.6us
	Handler (avg): 353.9us
		Overhead (avg): 23.7us
		Queue (avg): 18us
		Compute (avg): 312.2us
			Input (avg): 12.2us
			Infer (avg): 290us
			Output (avg): 10us
Summary for ensemble (-1): trace count = 1
GRPC infer request (avg): 1000us
	Wait/Read (avg): 500us
	Send (avg): 50us
	Overhead (avg): 50us
	Handler (avg): 400us
Summary for inner (1): trace count = 1
	Handler (avg): 100us
		Overhead (avg): 20us
		Queue (avg): 30us
		Compute (avg): 50us
			Input (avg): 10us
			Infer (avg): 35us
			Output (avg): 5us
`)
  })
})
