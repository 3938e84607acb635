import { describe, expect, it } from 'vitest'
import { BatchWatch, FrameSource, latencyWindow } from '../../src/adapters/inspector/frame-source.ts'
import { LatencyHistogram } from '../../src/observe/model-counts.ts'
import { resourcesOf } from '../../src/engine/engine-resources.ts'
import type { ObservedBatch, ObservedModel } from '../../src/observe/request-observer.ts'
import { FrameHistory, modelKey } from '../../packages/perf/src/inspector-page/page/live-charts.ts'
import { identity } from '../models/small.ts'
import { loadNumber, one, step } from '../pipelines/arithmetic.ts'
import { ownEngine } from '../support/open.ts'
import { frameOf, idle, modelOf } from './fake-frames.ts'

const row = { x: new Float32Array(4) }

describe('latencies of a window', () => {
  it('are of what came in it alone, of all models together', () => {
    const [one, other] = [new LatencyHistogram(), new LatencyHistogram()]
    one.record(500, 1000)
    const before = [one.distribution(), other.distribution()] as const
    one.record(1, 90)
    other.record(10, 9)
    other.record(100)
    const window = latencyWindow([
      { before: before[0], after: one.distribution() },
      { before: before[1], after: other.distribution() },
    ])!
    const within = (us: number, expected: number) =>
      expect(us / expected).toSatisfy((ratio: number) => ratio >= 1 && ratio <= 1.016)
    within(window.p50Us, 1000)
    within(window.p90Us, 1000)
    within(window.p99Us, 10_000)
    within(window.maxUs, 100_000)
  })

  it('are none where nothing came', () => {
    const same = new LatencyHistogram()
    same.record(1, 5)
    expect(latencyWindow([{ before: same.distribution(), after: same.distribution() }])).toBeNull()
    expect(latencyWindow([])).toBeNull()
  })
})

describe('what is kept of batches', () => {
  const model = { name: 'm', version: 2 } as ObservedModel
  const batchOf = (id: number, changes: Partial<ObservedBatch> = {}): ObservedBatch => ({
    model,
    id,
    rows: 3,
    requestCount: 2,
    reason: 'idle',
    isRerun: false,
    instance: 'm_0',
    worker: 'cpu-1',
    inline: false,
    moments: null,
    error: null,
    ...changes,
  })

  it('are those that run, and the last that ended', () => {
    const watch = new BatchWatch()
    for (let id = 0; id < 100; id++) {
      watch.batchBegan(batchOf(id))
      if (id < 98) watch.batchEnded(batchOf(id))
    }
    expect(watch.running().map(({ id }) => id)).toEqual([98, 99])
    const { ended, leftOut } = watch.takeEnded()
    expect({ first: ended[0]!.id, last: ended.at(-1)!.id, count: ended.length, leftOut }).toEqual({
      first: 58,
      last: 97,
      count: 40,
      leftOut: 58,
    })
    expect(watch.takeEnded()).toEqual({ ended: [], leftOut: 0 })
  })

  it('has no error in it, nor a name without end', () => {
    const watch = new BatchWatch()
    watch.batchEnded(batchOf(1, { error: 'the secret', model: { ...model, name: 'n'.repeat(10_000) } }))
    const text = JSON.stringify(watch.takeEnded())
    expect(text).not.toContain('secret')
    expect(text.length).toBeLessThan(500)
  })
})

describe('frames of an engine', () => {
  it('have all versions that there are, pipelines as such, and nothing of what was unloaded', async () => {
    const engine = ownEngine({ cpuWorkers: 1 })
    const frames = new FrameSource(engine, resourcesOf(engine).observers, 1000)
    expect(frames.next()).toMatchObject({ models: [], workers: [], staging: [] })
    for (const version of [1, 2]) await engine.load('pairs', { path: identity('float32'), version })
    await loadNumber(engine, 'twice', (x) => 2 * x)
    await engine.loadPipeline('line', { inputs: ['x'], steps: [step('twice', 'x', 'y')], outputs: ['y'] })
    const { models, workers, staging } = frames.next()
    expect(models.map(({ name, version, serves, isPipeline, window }) => [name, version, serves, isPipeline, window])).toEqual([
      ['pairs', 1, false, false, null], ['pairs', 2, true, false, null], ['twice', 1, true, false, null], ['line', 1, true, true, null],
    ]) // prettier-ignore
    expect(workers.length).toBeGreaterThan(0)
    expect(staging.map(({ pool }) => pool)).toEqual(['models', 'functions'])
    await engine.infer('line', { x: one(1) })
    expect(frames.next().models.map(({ window }) => window!.answered)).toEqual([0, 0, 1, 1])
    await engine.unload('line')
    expect(frames.next().models.map(({ name }) => name)).toEqual(['pairs', 'pairs', 'twice'])
  })

  it('count anew what was loaded anew', async () => {
    const engine = ownEngine({ cpuWorkers: 1 })
    const frames = new FrameSource(engine, resourcesOf(engine).observers, 1000)
    const load = () => engine.load('pairs', { path: identity('float32') })
    await load()
    await engine.infer('pairs', row)
    frames.next()
    await load()
    await engine.infer('pairs', row)
    expect(frames.next().models[0]).toMatchObject({ answeredCount: 1, window: null })
    await engine.infer('pairs', row)
    expect(frames.next().models[0]!.window).toMatchObject({ answered: 1, rows: 1 })
  })

  it('tell of 100 models at most, the busiest, and count them all', () => {
    const engine = ownEngine()
    const statistics = engine.stats()
    const names = Array.from({ length: 150 }, (_, index) => `model-${index}`)
    const many = {
      stats: () => statistics,
      models: () => names.map((name) => ({ name, version: 1, versions: [{ version: 1, state: 'loading' as const, failure: null, replacing: false }] })),
      model: () => { throw new Error('not asked') },
    } // prettier-ignore
    const frame = new FrameSource(many, resourcesOf(engine).observers, 1000).next()
    expect({ shown: frame.models.length, leftOut: frame.modelsLeftOut }).toEqual({ shown: 100, leftOut: 50 })
  })
})

describe('what a page keeps of frames', () => {
  const model = modelOf('digits')

  it('is the last 120 of them', () => {
    const history = new FrameHistory()
    for (let second = 0; second < 200; second++) history.add(frameOf(second * 1000, [model]))
    const moments = history.moments(null)
    expect({ count: moments.length, first: moments[0]!.frame.atMs, last: history.last!.atMs }).toEqual({
      count: 120,
      first: 80_000,
      last: 199_000,
    })
  })

  it('has a gap where frames are missing, and begins anew when the clock is set back', () => {
    const history = new FrameHistory()
    for (const at of [0, 1000, 2000, 9000]) history.add(frameOf(at, [model]))
    expect(history.moments(null).map((moment) => moment?.frame.atMs ?? null)).toEqual([
      0,
      1000,
      2000,
      null,
      9000,
    ])
    history.add(frameOf(5000, [model]))
    expect(history.moments(null)).toHaveLength(1)
  })

  it('is of all models, or of the one that is chosen, or nothing where that was not there', () => {
    const history = new FrameHistory()
    history.add(frameOf(0, []))
    history.add(frameOf(1000, [model]))
    expect(history.moments(modelKey(model)).map((moment) => moment!.load)).toEqual([idle, model])
    expect(history.moments(null).map((moment) => moment!.load.waiting)).toEqual([4, 4])
  })
})
