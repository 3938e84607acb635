import { describe, expect, it } from 'vitest'
import { type ModelStatistics, Tensor } from '../../../../src/index.ts'
import { identity } from '../../../../test/models/small.ts'
import { loadGate, loadNumber, one, step } from '../../../../test/pipelines/arithmetic.ts'
import { until } from '../../../../test/support/until.ts'
import { tracedEngine } from '../../../../test/tracing/traced-engine.ts'
import { type ModelSummary, summaryText } from '../../src/trace-files/model-summary.ts'
import { summarize } from './summarize.ts'
import {
  decodeTrace,
  eventTypes,
  perfettoTimeline,
  type TracePacket,
} from '../../src/trace-files/perfetto-timeline.ts'
import type { Trace } from '../../src/trace-files/read-trace-file.ts'
import { inLanes } from '../../src/trace-files/timeline.ts'
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

/** What a timeline holds, by track; fails unless the file is as Perfetto has it. */
function checked(traces: readonly Trace[]) {
  const { packet } = decodeTrace(Buffer.concat([...perfettoTimeline(traces)]))
  expect(packet.every(({ trusted_packet_sequence_id: id }) => id === 1)).toBe(true)
  expect(packet[0]!.sequence_flags).toBe(1)
  const names = new Map<number, string>()
  const open = new Map<number, string[]>()
  const slices: { track: string; name: string; packet: TracePacket }[] = []
  const counters = new Map<string, number[]>()
  const flows = new Map<number, { atNs: number; ends: boolean }[]>()
  let lastNs = 0
  for (const each of packet) {
    const { track_descriptor: descriptor, track_event: event, timestamp = 0 } = each
    if (descriptor !== undefined) {
      expect(names.has(descriptor.uuid)).toBe(false)
      if (descriptor.parent_uuid !== undefined) expect(names.has(descriptor.parent_uuid)).toBe(true)
      names.set(descriptor.uuid, descriptor.name ?? descriptor.process!.process_name)
    }
    if (event === undefined) continue
    expect(timestamp).toBeGreaterThanOrEqual(lastNs)
    lastNs = timestamp
    const track = names.get(event.track_uuid)!
    expect(track).toBeDefined()
    const stack = open.get(event.track_uuid) ?? []
    open.set(event.track_uuid, stack)
    if (event.type === eventTypes.sliceBegin) {
      stack.push(event.name!)
      slices.push({ track, name: event.name!, packet: each })
    } else if (event.type === eventTypes.sliceEnd) expect(stack.pop()).toBeDefined()
    else counters.set(track, [...(counters.get(track) ?? []), event.counter_value!])
    for (const [ids, ends] of [
      [event.flow_ids, false],
      [event.terminating_flow_ids, true],
    ] as const) {
      for (const id of ids ?? [])
        flows.set(Number(id), [...(flows.get(Number(id)) ?? []), { atNs: timestamp, ends }])
    }
  }
  for (const stack of open.values()) expect(stack).toEqual([])
  for (const arrows of flows.values()) {
    expect(arrows.length).toBeGreaterThanOrEqual(2)
    expect(arrows.map(({ ends }) => ends)).toEqual([...arrows.slice(1).map(() => false), true])
  }
  return { slices, counters, flows, names: [...names.values()] }
}

describe('the timeline for Perfetto', () => {
  it('has a track for each worker with its batches, and an arrow to them from each request', async () => {
    const { engine, traces } = tracedEngine({}, { cpuWorkers: 2 })
    const model = await engine.load('m', {
      path: identity('float32'),
      instanceGroup: [{ count: 2 }],
      maxBatchSize: 4,
      splitOversized: true,
    })
    const row = (rows: number) => ({ x: new Tensor('float32', new Float32Array(4 * rows), [rows, 4]) })
    for (let round = 0; round < 5; round++)
      await Promise.all([
        model.infer(row(9), { requestId: `large-${round}` }),
        ...Array.from({ length: 10 }, () => model.infer(row(1))),
      ])
    const all = await traces()
    const { slices, flows, names, counters } = checked(all)
    expect(names.slice(0, 2)).toEqual(['zerohop', 'workers'])
    const batches = slices.filter(({ packet }) => packet.track_event!.categories?.[0] === 'batch')
    const { executionCount, inferenceCount } = model.stats()
    expect(batches).toHaveLength(executionCount)
    const argument = ({ packet }: (typeof batches)[number], name: string) =>
      packet.track_event!.debug_annotations!.find((each) => each.name === name)!
    expect(batches.reduce((sum, batch) => sum + argument(batch, 'rows').int_value!, 0)).toBe(inferenceCount)
    expect(new Set(batches.map(({ track }) => track))).toEqual(
      new Set(
        all.flatMap(({ batches: own }) =>
          own.map(({ worker, inline }) => (inline ? "application's thread" : worker)),
        ),
      ),
    )
    expect(batches.some((batch) => argument(batch, 'request ids').string_value!.includes('large-0'))).toBe(
      true,
    )
    expect(flows.size).toBe(all.length)
    expect(slices.filter(({ track, name }) => track === 'requests' && name.startsWith('large'))).toHaveLength(
      5,
    )
    expect(counters.get('waiting requests')!.at(-1)).toBe(0)
    expect(Math.max(...counters.get('waiting requests')!)).toBeGreaterThan(0)
  })

  it('has batches that run at once on one worker on tracks of their own, requests inside of others, and those that failed', async () => {
    const { engine, traces } = tracedEngine()
    const gate = await loadGate(engine, 'gate', { concurrency: 2, maxBatchSize: 1 })
    const pipeline = await engine.loadPipeline('p', {
      inputs: ['x'],
      steps: [step('gate', 'x', 'y')],
      outputs: ['y'],
    })
    const running = [0, 1].map((x) => pipeline.infer({ x: one(x) }))
    await until(() => gate.calls === 2)
    const withdrawal = new AbortController()
    const waiting = engine.infer('gate', { x: one(2) }, { signal: withdrawal.signal }).catch(() => {})
    withdrawal.abort()
    gate.open()
    await Promise.all([...running, waiting])
    const { slices, names } = checked(await traces())
    expect(names.filter((name) => name === "application's thread")).toHaveLength(2)
    expect(
      slices.filter(({ packet }) =>
        packet.track_event!.debug_annotations?.some(({ name }) => name === 'parent'),
      ),
    ).toHaveLength(2)
    expect(
      slices.filter(({ packet }) =>
        packet.track_event!.debug_annotations?.some(({ string_value: value }) => value === 'cancelled'),
      ),
    ).toHaveLength(1)
  })

  it('shows what files of Triton have: requests, and no batches', () => {
    const { slices, flows } = checked(tritonTraces())
    expect(slices.map(({ track, name }) => [track, name])).toEqual(
      expect.arrayContaining([
        ['requests', 'abc'],
        ['requests', 'infer'],
        ['requests', 'request 2'],
      ]),
    )
    expect(flows.size).toBe(0)
  })

  it('of nothing is a file without events', () => {
    expect(checked([]).slices).toEqual([])
  })
})

describe('lanes', () => {
  it('hold one stretch after the other, as few lanes as there need to be, and forgive clocks that differ a little', () => {
    const stretches = [
      [0, 100_000],
      [50_000, 150_000],
      [100_000, 120_000],
      [110_000, 200_000],
      [300_000, 300_000],
    ].map(([startNs, endNs]) => ({ startNs: startNs!, endNs: endNs! }))
    expect(inLanes(stretches).map(({ lane, startNs }) => [lane, startNs])).toEqual([
      [0, 0],
      [1, 50_000],
      [0, 100_000],
      [0, 120_000],
      [0, 300_000],
    ])
  })
})
