import { describe, expect, it } from 'vitest'
import { full } from '../../../../test/support/full.ts'
import { ClosedLoop } from '../../src/perf/load/closed-loop.ts'
import {
  constantSchedule,
  firstOf,
  intervalSchedule,
  OpenLoop,
  poissonSchedule,
} from '../../src/perf/load/open-loop.ts'
import { measure, type MeasureHooks } from '../../src/perf/measure.ts'
import { measureDefaults, type MeasureSettings } from '../../src/perf/perf-settings.ts'
import type { MeasuredWindow } from '../../src/perf/result.ts'
import { probe } from '../../src/perf/open-target.ts'
import { FakeLoadClock, fakeModel, oneSample, queueFull, type FakeService } from './fake-load.ts'

/** Measures a model that takes its time on a clock that stands still. */
async function measured(
  service: FakeService,
  settings: Partial<MeasureSettings> = {},
  ratePerSecond?: number,
  hooks: MeasureHooks = {},
) {
  const clock = new FakeLoadClock(0.05)
  const model = fakeModel(clock, service)
  const source = oneSample()
  const all = { ...measureDefaults, measurementIntervalMs: 1000, ...settings }
  const count = all.requestCount > 0 ? all.warmupRequestCount + all.requestCount : Infinity
  const load =
    ratePerSecond === undefined
      ? new ClosedLoop(source, 1, count)
      : new OpenLoop(source, firstOf(constantSchedule(ratePerSecond), count))
  const windows: MeasuredWindow[] = []
  const onWindow = (window: MeasuredWindow) => windows.push(window)
  const result = await clock.run(
    measure({ model, source }, { level: ratePerSecond ?? 1, load }, all, { clock, onWindow, ...hooks }),
  )
  return { result, windows, model, clock }
}

describe('windows', () => {
  it('by time follow each other, last 1.2 times as long as was asked for, and are three where all is steady', async () => {
    const { result, windows } = await measured({ serviceMs: () => 10 })
    expect(windows.map(({ load: { startMs, endMs } }) => [startMs, endMs])).toEqual([
      [0, 1200],
      [1200, 2400],
      [2400, 3600],
    ])
    expect(result).toMatchObject({
      stable: true,
      windowSeconds: 3.6,
      inferencesPerSecond: 100,
      sendLag: null,
      failures: {},
    })
    expect(result).not.toHaveProperty('unansweredCount')
    expect(result.requestCount).toBe(360)
  })

  it('are no more than three where all three are over the threshold, though they do not agree: a queue that grows for ever', async () => {
    const { result, windows } = await measured(
      { serviceMs: () => 20, servers: 'one' },
      { latencyThresholdMs: 50 },
      100,
    )
    expect([windows.length, result.stable]).toEqual([3, false])
  })

  it('go on where one of them was over the threshold', async () => {
    const { result, windows } = await measured(
      { serviceMs: () => 10, stall: [1300, 2000] },
      { latencyThresholdMs: 50 },
      50,
    )
    expect(windows.length).toBeGreaterThan(3)
    expect(result.stable).toBe(true)
  })

  it('count a request where it ends', async () => {
    const { windows } = await measured({ serviceMs: () => 800 }, { maxTrials: 3 })
    expect(windows.map(({ load }) => load.requestCount)).toEqual([1, 2, 1])
  })

  it('by count end at the first whole second by which there are so many', async () => {
    const { windows, result } = await measured(
      { serviceMs: () => 25 },
      { measurementMode: 'count_windows', measurementRequestCount: 50 },
    )
    expect(windows.map(({ load }) => [load.endMs, load.requestCount])).toEqual([
      [2000, 80],
      [4000, 80],
      [6000, 80],
    ])
    expect(result.stable).toBe(true)
  })

  it('are merged, the last three of them, when they agree', async () => {
    // Slow at first: the first window differs from the others.
    const { result, windows } = await measured({ serviceMs: (call) => (call < 10 ? 60 : 10) })
    expect(windows.length).toBe(4)
    expect(result).toMatchObject({ stable: true, windowSeconds: 3.6, requestCount: 360 })
    expect(result.latency).toMatchObject({ averageUs: 10_000, maxUs: 10_000 })
  })

  it('that never agree make a result that is not stable, after as many as may be tried', async () => {
    let now = 1
    const { result, windows } = await measured(
      { serviceMs: () => (now *= 1.05) },
      { maxTrials: 5, measurementIntervalMs: 100 },
    )
    expect([result.stable, windows.length]).toEqual([false, 5])
  })

  it('are not stable while nothing is answered in one of them', async () => {
    const { result, windows } = await measured(
      { serviceMs: (call) => (call === 100 ? 20_000 : 10) },
      { maxTrials: 4, stability: 1e9 },
    )
    expect(windows.map(({ load }) => load.requestCount)).toEqual(
      [100, 0, 0, 0].map((count, index) => (index === 0 ? expect.any(Number) : count)),
    )
    expect(result.stable).toBe(false)
  })

  it('begin after the requests of warming up, which are counted nowhere', async () => {
    const { result, model } = await measured(
      { serviceMs: (call) => (call < 20 ? 100 : 10) },
      { warmupRequestCount: 20 },
    )
    expect(result.latency.maxUs).toBe(10_000)
    expect(result.stable).toBe(true)
    expect(model.calls).toBeGreaterThan(20 + result.requestCount - 1)
  })

  it('are one where a number of requests is asked for, from the first to the last answer', async () => {
    const { result, windows, model } = await measured({ serviceMs: (call) => 1 + call }, { requestCount: 10 })
    expect([windows.length, model.calls]).toEqual([1, 10])
    expect(result).toMatchObject({ stable: true, requestCount: 10, windowSeconds: 0.055 })
  })

  it.each([1, 8])(
    'are one of exactly so many after warming up, too, with %d callers of a model that answers at once',
    async (callers) => {
      const clock = new FakeLoadClock()
      const model = fakeModel(clock, { serviceMs: (call) => (call < 100 ? 5 : 0.001) })
      const source = oneSample()
      const result = await clock.run(
        measure(
          { model, source },
          { level: callers, load: new ClosedLoop(source, callers, 1100) },
          { ...measureDefaults, requestCount: 1000, warmupRequestCount: 100 },
          { clock },
        ),
      )
      expect([model.calls, result.requestCount]).toEqual([1100, 1000])
    },
  )

  it('begin where the load ends before it is warm, with nothing in them', async () => {
    const { result } = await measured({ serviceMs: () => 4 }, { warmupRequestCount: 100 }, undefined, {
      signal: AbortSignal.abort(),
    })
    expect(result).toMatchObject({ stable: false, requestCount: 0 })
  })

  it('end at once when the user has had enough, and tell of what was measured', async () => {
    const controller = new AbortController()
    const onWindow = (_window: MeasuredWindow, trial: number) => trial === 1 && controller.abort()
    const { result } = await measured({ serviceMs: () => 10 }, {}, undefined, {
      signal: controller.signal,
      onWindow,
    })
    expect(result.stable).toBe(false)
    expect(result.requestCount).toBeGreaterThan(110)
  })

  it('end then without the answers that callers still wait for', async () => {
    const controller = new AbortController()
    const onWindow = (window: MeasuredWindow) => window.load.requestCount === 0 && controller.abort()
    const { result, clock } = await measured(
      { serviceMs: (call) => (call === 3 ? 1e6 : 10) },
      {},
      undefined,
      { signal: controller.signal, onWindow },
    )
    expect(clock.nowMs()).toBeLessThan(10_000)
    expect(result).toMatchObject({ stable: false, requestCount: 3 })
  })
})

describe('a model that stalls', () => {
  const stalling: FakeService = { serviceMs: () => 1, servers: 'one', stall: [600, 1100] }

  it('shows that to requests at a rate: 500 ms at 100 requests a second are a p99 of 400 ms and more', async () => {
    const { result } = await measured(stalling, { maxTrials: 1 }, 100)
    expect(result.latency.p99Us).toBeGreaterThanOrEqual(400_000)
    expect(result.latency.maxUs).toBeGreaterThanOrEqual(490_000)
  })

  it.each([
    ['at random', poissonSchedule(100, 3)],
    ['by the intervals of a file', intervalSchedule([5_000, 15_000])],
  ])('shows that to requests %s, too', async (_, schedule) => {
    const clock = new FakeLoadClock()
    const [model, source] = [fakeModel(clock, stalling), oneSample()]
    const result = await clock.run(
      measure(
        { model, source },
        { level: 100, load: new OpenLoop(source, schedule) },
        { ...measureDefaults, measurementIntervalMs: 1000, maxTrials: 1 },
        { clock },
      ),
    )
    expect(result.latency.p99Us).toBeGreaterThanOrEqual(400_000)
  })

  it('hides it from a caller who waits', async () => {
    const { result } = await measured(stalling, { maxTrials: 1 })
    expect(result.latency.p99Us).toBeLessThan(10_000)
  })

  it('shows it also where it is the event loop that stands still, with how late requests were sent', async () => {
    const clock = new FakeLoadClock()
    const model = fakeModel(clock, { serviceMs: () => 1 })
    const infer = model.infer as () => Promise<never>
    let calls = 0
    const stalled = { ...model, infer: (() => (++calls === 50 && clock.hold(500), infer())) as never }
    const source = oneSample()
    const load = new OpenLoop(source, constantSchedule(100))
    const result = await clock.run(
      measure(
        { model: stalled, source },
        { level: 100, load },
        { ...measureDefaults, measurementIntervalMs: 1000, maxTrials: 1 },
        { clock },
      ),
    )
    expect(result.latency.p99Us).toBeGreaterThanOrEqual(400_000)
    expect(result.sendLag!.maxUs).toBeGreaterThanOrEqual(480_000)
    expect(result.delayedCount).toBeGreaterThanOrEqual(48)
    expect(result.eventLoopDelay.maxUs).toBeGreaterThanOrEqual(480_000)
  })
})

describe('requests at a low rate', () => {
  it('are stable though windows of a few differ by what is due just as they begin and end', async () => {
    // Six are due in each; the answer to the last one of the second window comes in the third.
    const late = { serviceMs: (call: number) => [3][call] ?? (call === 11 ? 201 : 1) }
    const { result, windows } = await measured(late, { maxTrials: 3, percentile: 50 }, 5)
    expect(windows.map(({ load }) => load.requestCount)).toEqual([6, 5, 7])
    expect(result.stable).toBe(true)
  })

  it('are not where they differ by more', async () => {
    const { result } = await measured(
      { serviceMs: (call) => (call >= 9 && call < 12 ? 1000 : 1) },
      { maxTrials: 3, percentile: 50 },
      5,
    )
    expect(result.stable).toBe(false)
  })
})

describe('requests at a rate that a model cannot keep up with', () => {
  it('are not stable, as they take ever longer', async () => {
    const { result } = await measured({ serviceMs: () => 20, servers: 'one' }, { maxTrials: 4 }, 100)
    expect(result.stable).toBe(false)
    expect(result.inferencesPerSecond).toBeCloseTo(50, 0)
    // Half of all that was sent in the four windows.
    expect(result.unansweredCount).toBeGreaterThan(230)
    expect(result.unansweredCount).toBeLessThan(250)
    expect(result.sentPerSecond).toBeCloseTo(100, 0)
  })

  it('are not stable after many windows either, which differ by ever less of what waits by then', async () => {
    const { result, windows } = await measured(
      { serviceMs: () => 11, servers: 'one' },
      { maxTrials: 40, measurementIntervalMs: 100, stability: 0.5 },
      100,
    )
    expect([result.stable, windows.length]).toEqual([false, 40])
    expect(windows[39]!.load.latency.averageUs / windows[37]!.load.latency.averageUs).toBeLessThan(1.1)
  })

  it('are not stable where as many wait as may be, and further ones are not sent: what is answered takes the same time then', async () => {
    const failsOften = (call: number) => {
      if (call % 2 === 0) throw Object.assign(new Error('too many wait'), { code: 'NOT_SENT' })
      return 10
    }
    const { result } = await measured({ serviceMs: failsOften }, { maxTrials: 4 }, 100)
    expect(result.stable).toBe(false)
  })

  it('are stable where a queue refuses what it cannot keep: what is answered waits no longer', async () => {
    const refuses = (call: number) => {
      if (call % 2 === 0) throw queueFull
      return 20
    }
    const { result } = await measured({ serviceMs: refuses, servers: 'one' }, {}, 100)
    expect(result.stable).toBe(true)
  })

  it('are withdrawn at the end, rather than waited for', async () => {
    const { clock, result } = await measured({ serviceMs: () => 1000, servers: 'one' }, { maxTrials: 1 }, 100)
    expect(clock.nowMs()).toBeLessThan(1300)
    expect(result.failures).toEqual({})
  })
})

describe('failures', () => {
  it('are counted by their codes, beside what is answered', async () => {
    const serviceMs = (call: number) => {
      if (call % 4 === 0) throw queueFull
      return 10
    }
    const { result } = await measured({ serviceMs })
    expect(result.failures['ERR_QUEUE_FULL']).toBeGreaterThan(100)
    expect(result.requestCount / result.failures['ERR_QUEUE_FULL']!).toBeCloseTo(3, 1)
  })

  it('leave answers within the bound the share that they are of all that ended', async () => {
    const serviceMs = (call: number) => {
      if (call % 4 === 0) throw queueFull
      return call % 4 === 1 ? 100 : 10
    }
    const { result } = await measured({ serviceMs }, { goodputMs: 50 })
    expect(result.goodput!.share).toBeCloseTo(0.5, 1)
    expect(result.goodput!.withinMs).toBe(50)
  })
  const fails = () => {
    throw queueFull
  }

  it('fill windows by count as answers do: a model that always fails is not waited for', async () => {
    const { windows, result } = await measured(
      { serviceMs: fails },
      { measurementMode: 'count_windows', maxTrials: 3 },
      full ? undefined : 100, // a closed loop of failures fills windows with very many
    )
    expect(windows.map(({ load }) => load.endMs)).toEqual([1000, 2000, 3000])
    expect(result.stable).toBe(false)
  })

  it('alone make no result that is stable, also of a number of requests', async () => {
    const { result } = await measured({ serviceMs: fails }, { requestCount: 10 })
    expect(result).toMatchObject({ stable: false, requestCount: 0, failures: { ERR_QUEUE_FULL: 10 } })
  })
})

describe('the first request', () => {
  it('is not waited for by who wants no more', async () => {
    const controller = new AbortController()
    const model = fakeModel(new FakeLoadClock(), { serviceMs: () => 1000 })
    const asked = probe({ model, source: oneSample() }, controller.signal)
    controller.abort()
    await expect(asked).rejects.toBe(controller.signal.reason)
  })
})
