import { describe, expect, it } from 'vitest'
import { Tensor } from '../../../../src/index.ts'
import { inLanes } from '../../src/trace-files/timeline.ts'
import {
  decodeTrace,
  eventTypes,
  perfettoTimeline,
  type TracePacket,
} from '../../src/trace-files/perfetto-timeline.ts'
import type { Trace } from '../../src/trace-files/read-trace-file.ts'
import { loadGate, one, step } from '../../../../test/pipelines/arithmetic.ts'
import { identity } from '../../../../test/models/small.ts'
import { until } from '../../../../test/support/until.ts'
import { tracedEngine } from '../../../../test/tracing/traced-engine.ts'
import { tritonTraces } from './triton-traces.ts'

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
