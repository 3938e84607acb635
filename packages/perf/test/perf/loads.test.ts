import { afterEach, describe, expect, it, vi } from 'vitest'
import { mulberry32 } from '../../../../src/base/numbers.ts'
import { type ModelMetadata, Tensor } from '../../../../src/index.ts'
import { identity } from '../../../../test/models/small.ts'
import { load, ownEngine, sharedEngine } from '../../../../test/support/open.ts'
import { UniqueSamples } from '../../src/perf/input/generated-data.ts'
import {
  inputDefaults,
  type Sample,
  type SampleSource,
  sampleSource,
} from '../../src/perf/input/sample-source.ts'
import { ClosedLoop } from '../../src/perf/load/closed-loop.ts'
import { type Load, loadClock } from '../../src/perf/load/load.ts'
import {
  constantSchedule,
  firstOf,
  intervalSchedule,
  Metronome,
  OpenLoop,
  type Pacer,
  poissonSchedule,
  TurnPacer,
} from '../../src/perf/load/open-loop.ts'
import { Recorder, RequestLog } from '../../src/perf/load/recorder.ts'
import { loadOf, measure } from '../../src/perf/measure.ts'
import { measureDefaults } from '../../src/perf/perf-settings.ts'
import { replay, ReplaySource } from '../../src/perf/replay/replay.ts'
import { inputsText } from '../../src/perf/report/console-report.ts'
import { measureLoad } from '../../src/tune/measure-load.ts'
import { FakeLoadClock, oneSample, queueFull } from './fake-load.ts'
import { levelOf } from './level.ts'

/** Plays a load against calls that take `serviceMs`, until it has come to its end or to `untilMs`. */
async function play(load: Load, serviceMs: (call: number) => number, untilMs = Infinity) {
  const clock = new FakeLoadClock()
  const log = new RequestLog()
  const recorder = new Recorder(clock, log)
  let calls = 0
  let running = 0
  let most = 0
  const atOnce: number[] = []
  load.start((_sample: Sample) => {
    const ms = serviceMs(calls++)
    if (Number.isNaN(ms)) return Promise.reject(queueFull)
    most = Math.max(most, ++running)
    atOnce.push(running)
    return new Promise<void>((resolve) =>
      clock.setTimer(() => {
        running--
        resolve()
      }, ms),
    )
  }, recorder)
  const end = new Promise<void>((resolve) => untilMs < Infinity && clock.setTimer(resolve, untilMs))
  await clock.run(Promise.race([load.finished, end]))
  await clock.run(load.stop())
  return { window: recorder.cut(), requests: [...log], calls, most, atOnce, clock, recorder }
}

describe('callers that wait for their answers', () => {
  it('are as many at once as were asked for, and each asks again when it is answered', async () => {
    const { window, most, calls } = await play(new ClosedLoop(oneSample({ rows: 2 }), 3), () => 10, 95)
    expect({ most, calls }).toEqual({ most: 3, calls: 30 })
    expect([window.requestCount, window.inferenceCount, window.latency.averageUs]).toEqual([30, 60, 10_000])
    expect(window.sendLag.count).toBe(0)
  })

  it('send no more than was asked for, and are finished when all is answered', async () => {
    const { window, calls } = await play(new ClosedLoop(oneSample(), 4, 10), (call) => 1 + call)
    expect([calls, window.requestCount]).toEqual([10, 10])
  })

  it('count what fails by its code, and let a turn of the event loop pass before they ask again', async () => {
    const { window, clock } = await play(new ClosedLoop(oneSample(), 1, 5), (call) => (call < 4 ? NaN : 1))
    expect(window.failures).toEqual({ ERR_QUEUE_FULL: 4 })
    expect([window.requestCount, window.failureCount, window.latency.count]).toEqual([1, 4, 1])
    expect(clock.nowMs()).toBeCloseTo(1.04, 9)
  })

  it('become more every so many answers, up to the most, where that is asked for', async () => {
    const { atOnce, window, most } = await play(
      new ClosedLoop(oneSample(), 1, Infinity, { start: 1, end: 5, step: 2, period: 4 }),
      () => 10,
    )
    expect(atOnce.slice(0, 4)).toEqual([1, 1, 1, 1])
    expect(most).toBe(5)
    expect(window.requestCount).toBeGreaterThanOrEqual(12)
    expect(window.requestCount).toBeLessThanOrEqual(12 + 4)
  })
})

describe('requests that are sent by a schedule', () => {
  const ten = () => firstOf(constantSchedule(100), 10)

  it('are sent when they are due, whatever becomes of those before', async () => {
    const { requests, most } = await play(new OpenLoop(oneSample(), ten()), () => 35)
    expect(requests.map(({ intendedMs }) => intendedMs)).toEqual([0, 10, 20, 30, 40, 50, 60, 70, 80, 90])
    for (const { intendedMs, sentMs } of requests) expect(sentMs - intendedMs).toBeLessThan(0.02)
    expect(most).toBe(4)
  })

  it('that could not be sent in time are sent at once, counted from when they were meant to be, and told of as delayed', async () => {
    const clock = new FakeLoadClock()
    const recorder = new Recorder(clock)
    const load = new OpenLoop(oneSample(), ten())
    let calls = 0
    load.start(() => {
      // The third call holds the event loop for as long as six more are due.
      if (++calls === 3) clock.hold(60)
      return Promise.resolve()
    }, recorder)
    await clock.run(load.finished)
    const { delayedCount, sendLag, latency, requestCount } = recorder.cut()
    expect([requestCount, sendLag.count, delayedCount]).toEqual([10, 10, 5])
    expect(sendLag.maxUs).toBeGreaterThan(49_900)
    expect(sendLag.maxUs).toBeLessThan(50_100)
    expect(latency.maxUs).toBeGreaterThanOrEqual(sendLag.maxUs)
  })

  it('wait for the answer of their caller where callers are to be serial, and count from when they were meant to be sent', async () => {
    const callers: number[] = []
    const source: SampleSource = { size: 1, next: (caller) => (callers.push(caller), { feeds: {}, rows: 1 }) }
    const { requests, most } = await play(new OpenLoop(source, ten(), { callers: 2, serial: true }), () => 50)
    expect(most).toBe(2)
    expect(callers.slice(0, 4)).toEqual([0, 1, 0, 1])
    expect(requests[9]!.endedMs - requests[9]!.intendedMs).toBeGreaterThan(150)
  })

  it('go round among callers that need not be serial', async () => {
    const callers: number[] = []
    const source: SampleSource = { size: 1, next: (caller) => (callers.push(caller), { feeds: {}, rows: 1 }) }
    await play(new OpenLoop(source, ten(), { callers: 3 }), () => 500)
    expect(callers).toEqual([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
  })

  it('end when they are stopped, once each is answered', async () => {
    const { calls, window, recorder } = await play(
      new OpenLoop(oneSample(), constantSchedule(100)),
      () => 200,
      95,
    )
    expect([calls, window.requestCount, recorder.pending]).toEqual([10, 10, 0])
  })

  it('count what fails', async () => {
    const { window } = await play(new OpenLoop(oneSample(), ten()), (call) => (call % 2 === 0 ? NaN : 1))
    expect([window.requestCount, window.failures]).toEqual([5, { ERR_QUEUE_FULL: 5 }])
  })
})

describe('the list of requests', () => {
  it('has each as it was, also beyond one piece of memory', () => {
    const log = new RequestLog()
    const count = 70_000
    for (let index = 0; index < count; index++)
      log.push(
        index,
        index + 0.5,
        index + 2,
        { feeds: {}, rows: 1 + (index % 3), options: { sequenceId: index } },
        index % 2 === 0 ? null : `ERR_${index % 5}`,
      )
    expect(log.length).toBe(count)
    const [first, ...others] = log
    expect(first).toEqual({ intendedMs: 0, sentMs: 0.5, endedMs: 2, rows: 1, sequenceId: 0, failure: null })
    expect(others.at(-1)).toEqual({
      intendedMs: 69_999,
      sentMs: 69_999.5,
      endedMs: 70_001,
      rows: 1,
      sequenceId: 69_999,
      failure: 'ERR_4',
    })
  })

  it('counts what comes after its limit', () => {
    const log = new RequestLog(2)
    for (let index = 0; index < 5; index++) log.push(0, 0, 1, { feeds: {}, rows: 1 }, null)
    expect([log.length, log.dropped, [...log].length]).toEqual([2, 3, 2])
  })
})

describe('when requests are meant to be sent', () => {
  it('at a constant rate is the same interval apart, without errors that add up', () => {
    expect([...firstOf(constantSchedule(4), 4)]).toEqual([0, 250, 500, 750])
    expect([...firstOf(constantSchedule(3), 300_001)].at(-1)).toBe(100_000_000)
  })

  it('as a Poisson process has the rate, a deviation of the intervals as large as their mean, and the same times for the same seed', () => {
    const count = 20_000
    const times = [...firstOf(poissonSchedule(100, 7), count)]
    const intervals = times.map((atMs, index) => atMs - (times[index - 1] ?? 0))
    const mean = times.at(-1)! / count
    const deviation = Math.sqrt(intervals.reduce((sum, ms) => sum + (ms - mean) ** 2, 0) / count)
    expect(mean).toBeGreaterThan(9.8)
    expect(mean).toBeLessThan(10.2)
    expect(deviation / mean).toBeGreaterThan(0.97)
    expect(deviation / mean).toBeLessThan(1.03)
    expect([...firstOf(poissonSchedule(100, 7), 10)]).toEqual(times.slice(0, 10))
    expect([...firstOf(poissonSchedule(100, 8), 10)]).not.toEqual(times.slice(0, 10))
  })

  it('by intervals goes through them again and again', () => {
    expect([...firstOf(intervalSchedule([1000, 500]), 5)]).toEqual([1, 1.5, 2.5, 3, 4])
  })

  it('ends where it is cut off, or ends itself', () => {
    expect([...firstOf(constantSchedule(1), 0)]).toEqual([])
    expect([...firstOf([1, 2][Symbol.iterator](), 5)]).toEqual([1, 2])
  })
})

describe('a model that does nothing for 500 ms', () => {
  it('shows that at 100 requests a second as a p99 of 400 ms and more, and in what each part of them took', async () => {
    const engine = ownEngine()
    const module = new URL('fixtures/stalling.mjs', import.meta.url)
    const model = await engine.loadFunction('stalling', {
      module,
      inputs: [{ name: 'x', type: 'float32', dims: [4] }],
      outputs: [{ name: 'y', type: 'float32', dims: [4] }],
    })
    const target = { model: model as never, source: await sampleSource(model.metadata, inputDefaults) }
    const settings = { ...measureDefaults, requestCount: 100 }
    const load = loadOf(
      target.source,
      {
        ...settings,
        load: { mode: 'request-rate', range: { start: 100, end: 100, step: 1 }, distribution: 'constant' },
        seed: 1,
        sequences: null,
      },
      100,
    )
    const result = await measure(target, { level: 100, load }, settings)
    expect(result.failures).toEqual({})
    expect(result.requestCount).toBe(100)
    expect(result.latency.p99Us).toBeGreaterThanOrEqual(400_000)
    // Half of them have waited for it, or been in it, for a quarter of a second in the mean.
    expect(result.server.queueUs + result.server.computeInferUs).toBeGreaterThan(60_000)
    expect(result.batchSizes.reduce((sum, { batchSize, count }) => sum + batchSize * count, 0)).toBe(
      result.server.inferenceCount,
    )
  })
})

/** Waits for moments one after the other; by how much each was missed, in milliseconds. */
async function lags(pacer: Pacer, everyMs: number, count: number): Promise<number[]> {
  const found: number[] = []
  const startMs = loadClock.nowMs()
  for (let index = 1; index <= count; index++) {
    const atMs = startMs + index * everyMs
    await new Promise<void>((resolve) => pacer.wakeAt(atMs, resolve))
    found.push(loadClock.nowMs() - atMs)
  }
  return found
}

describe.each([
  ['a thread', () => new Metronome(loadClock)],
  ['timers and turns', () => new TurnPacer(loadClock)],
] as const)('a sender that %s wakes', (_, make) => {
  it('is woken for each moment, never before it', async () => {
    const pacer = make()
    const found = await lags(pacer, 0.7, 300)
    pacer.stop()
    expect(found).toHaveLength(300)
    expect(Math.min(...found)).toBeGreaterThanOrEqual(0)
  })

  it('is woken at once for a moment that has passed', () => {
    const pacer = make()
    let woken = false
    pacer.wakeAt(loadClock.nowMs() - 1, () => (woken = true))
    pacer.stop()
    expect(woken).toBe(true)
  })

  it('is not woken any more once it has stopped', async () => {
    const pacer = make()
    let woken = false
    pacer.wakeAt(loadClock.nowMs() + 20, () => (woken = true))
    pacer.stop()
    pacer.wakeAt(loadClock.nowMs(), () => (woken = true))
    await new Promise<void>((resolve) => loadClock.setTimer(resolve, 60))
    expect(woken).toBe(false)
  })
})

const engine = sharedEngine()
const served = () => load(engine, identity('float32'))
const ratePerSecond = 100
const seconds = 1.2

afterEach(() => void vi.restoreAllMocks())

it.each([
  [
    'replays a recording',
    async () => {
      const model = await served()
      const arrivals = Array.from({ length: ratePerSecond * seconds }, (_, index) => ({
        atUs: (index * 1e6) / ratePerSecond,
        rows: 1,
      }))
      const source = new ReplaySource(
        arrivals,
        model.metadata as ModelMetadata,
        { kind: 'zero', stringLength: 1, stringData: null },
        new Map(),
        mulberry32(1),
      )
      await replay({ model, source }, 1, measureDefaults, {})
    },
  ],
  [
    'tunes for a rate',
    async () => {
      const model = await served()
      const source = { size: 1, next: () => ({ feeds: { x: new Float32Array(4) }, rows: 1 }) }
      await measureLoad(model, source, {
        type: 'measure',
        name: 'model',
        load: { rate: ratePerSecond },
        warmupMs: 1,
        windowMs: 1000 * seconds,
      })
    },
  ],
])('whoever %s has the event loop rest until a request is due', async (_, measured) => {
  const turns = vi.spyOn(loadClock, 'nextTurn')
  await measured()
  // To look again and again for the last milliseconds takes 800 turns each, and more; until the sleeping thread has started that is so.
  expect(turns.mock.calls.length / (ratePerSecond * seconds)).toBeLessThan(200)
})

const samples = (count: number): Sample[] =>
  Array.from({ length: count }, (_, index) => ({
    feeds: { x: new Tensor('float32', Float32Array.of(index, 0, 0, 0), [1, 4]) },
    rows: 1,
  }))
const bytesOf = ({ feeds }: Sample) =>
  Buffer.from(((feeds['x'] as Tensor).data as Float32Array).slice().buffer).toString('hex')

describe('unique requests', () => {
  it('are never the same twice, however often they come again', () => {
    const source = new UniqueSamples(samples(5), mulberry32(1))
    expect(new Set(Array.from({ length: 1000 }, () => bytesOf(source.next()))).size).toBe(1000)
    expect(source.size).toBeNull()
  })

  it('stay as they are where they were given, and say how many there are', () => {
    const source = new UniqueSamples(samples(5), null)
    expect(new Set(Array.from({ length: 100 }, () => bytesOf(source.next()))).size).toBe(5)
    expect(source.size).toBe(5)
  })

  it('stay as they are without floats', () => {
    const words: Sample[] = [
      { feeds: { x: new Tensor('string', ['a'], [1]) }, rows: 1 },
      { feeds: { x: new Tensor('string', ['b'], [1]) }, rows: 1 },
    ]
    const source = new UniqueSamples(words, mulberry32(1))
    expect([source.next(), source.next(), source.next()]).toEqual([words[0], words[1], words[0]])
    expect(source.size).toBe(2)
  })
})

describe('the same inputs beside unique ones', () => {
  const server = levelOf({}).server
  const runs = [
    {
      inputs: 'same' as const,
      distinct: 1,
      levels: [
        levelOf({
          level: 2,
          inferencesPerSecond: 300,
          server: { ...server, cacheHitCount: 300, cacheMissCount: 0 },
        }),
      ],
    },
    {
      inputs: 'unique' as const,
      distinct: null,
      levels: [
        levelOf({
          level: 2,
          inferencesPerSecond: 100,
          server: { ...server, cacheHitCount: 0, cacheMissCount: 100 },
        }),
        levelOf({ level: 4, stable: false }),
      ],
    },
  ]

  it('are lines of one table, with what the cache gave and how many times as fast it was', () => {
    const rows = inputsText('concurrency', runs)
      .split('\n')
      .filter((line) => /same|unique/.test(line) && !line.includes('Against'))
    expect(
      rows.map((row) =>
        row
          .split('│')
          .map((cell) => cell.trim())
          .filter((cell) => cell !== ''),
      ),
    ).toEqual([
      ['2', 'same', '1', '300', '900', '1700', '240', '100 %', '3.000 x'],
      ['2', 'unique', 'all', '100', '900', '1700', '240', '0 %', '1.000 x'],
      ['4', 'unique', 'all', '100 (not stable)', '900', '1700', '240', '-', '1.000 x'],
    ])
  })
})
