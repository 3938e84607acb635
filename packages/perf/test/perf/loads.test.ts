import { describe, expect, it } from 'vitest'
import type { Sample, SampleSource } from '../../src/perf/input/sample-source.ts'
import { ClosedLoop, PeriodicConcurrency } from '../../src/perf/load/closed-loop.ts'
import type { Load } from '../../src/perf/load/load.ts'
import { constantSchedule, firstOf, OpenLoop } from '../../src/perf/load/open-loop.ts'
import { Recorder, RequestLog } from '../../src/perf/load/recorder.ts'
import { FakeLoadClock, oneSample, queueFull } from './fake-load.ts'

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
      new PeriodicConcurrency(oneSample(), { start: 1, end: 5, step: 2, period: 4 }),
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
