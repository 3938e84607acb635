import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import type { BatchLimits } from '../../src/options/batching.ts'
import { AttainedRate, LoadDivision } from '../../src/schedule/load-division.ts'
import { ClosedLoop } from './closed-loop.ts'
import { full, repetitions } from '../support/full.ts'

const limits: BatchLimits = {
  maxBatchSize: 64,
  preferredBatchSizes: [],
  maxQueueDelayMs: 0,
  joinRequests: true,
}

/** What callers in turn do: as long as they fit one batch, that runs and is answered; else runs and answers overlap. */
class Callers {
  readonly division = new LoadDivision(limits)
  callers = 64
  instances = 1
  /** Of the application's thread, for each answer and the call that follows from it. */
  answerMs = 0.002
  runMs = (rows: number): number => 0.02 + 0.002 * rows
  nowMs = 0

  get batchRows(): number {
    const [preferred = limits.maxBatchSize] = this.division.limits().preferredBatchSizes
    return Math.min(preferred, this.callers)
  }

  run(): boolean {
    const rows = this.batchRows
    const isAll = rows === this.callers
    const answersMs = rows * this.answerMs
    const tookMs = this.runMs(rows)
    const takenAtMs = isAll ? this.nowMs + answersMs : this.nowMs
    this.nowMs += isAll ? answersMs + tookMs : Math.max(answersMs, tookMs / this.instances)
    return this.division.finished(
      rows,
      rows,
      takenAtMs,
      isAll ? 0 : 1,
      Math.max(0, this.callers - (this.instances + 1) * rows),
      this.nowMs,
    )
  }

  /** Sizes of batches until then, each counted once where it follows itself. */
  until(ms: number): number[] {
    const sizes: number[] = []
    while (this.nowMs < ms) {
      if (sizes.at(-1) !== this.batchRows) sizes.push(this.batchRows)
      this.run()
    }
    return sizes
  }

  /** The part of the time until then in which batches have so many rows. */
  shareOf(rows: number, ms: number): number {
    const beganMs = this.nowMs
    let inItMs = 0
    while (this.nowMs < ms) {
      const [fromMs, isIt] = [this.nowMs, this.batchRows === rows]
      this.run()
      if (isIt) inItMs += this.nowMs - fromMs
    }
    return inItMs / (this.nowMs - beganMs)
  }
}

describe('a load that fits one batch', () => {
  let load: Callers
  beforeEach(() => {
    load = new Callers()
  })

  it('is run as two where its answers take a thread that has nothing to do meanwhile otherwise', () => {
    expect(load.until(100)).toEqual([64, 32])
  })

  it('is run as a whole again where halves give no more, and is tried ever more rarely', () => {
    load.runMs = () => 0.2 // however few rows
    expect(load.until(200)).toEqual([64, 32, 64])
    const trials = load.until(60_000).filter((rows) => rows === 32).length
    expect(trials).toBeGreaterThanOrEqual(5)
    expect(trials).toBeLessThanOrEqual(10)
  })

  it('is tried at once where it differs from the one that was tried', () => {
    load.runMs = () => 0.2
    load.until(1000)
    load.runMs = (rows) => 0.02 + 0.002 * rows
    load.callers = 40
    expect(load.until(1200)).toEqual([40, 20])
  })

  it('is run as a whole where its runs take nearly all of the time', () => {
    load.runMs = (rows) => 0.5 * rows
    expect(load.until(5000)).toEqual([64])
  })

  it('is divided among the instances where one would run it and the others had nothing', () => {
    load.instances = load.division.instances = 4
    load.callers = 8
    load.runMs = (rows) => 10 * rows
    expect(load.until(1500)).toEqual([8, 2])
    expect(load.shareOf(2, 60_000)).toBeGreaterThan(0.8)
  })

  it('is run by one of the instances where these have the same cores', () => {
    load.instances = load.division.instances = 2
    load.callers = 8
    load.runMs = (rows) => 10 * rows * (rows === 8 ? 1 : 2)
    expect(load.until(2000)).toEqual([8, 4, 8])
    expect(load.shareOf(8, 60_000)).toBeGreaterThan(0.9)
  })

  it('is found to give more in halves though the first of them are slow, as all is that has not been done for long', () => {
    let halves = 0
    load.runMs = (rows) => (rows === 64 || ++halves > 300 ? 1 : 4) * (0.02 + 0.002 * rows)
    load.until(1000)
    expect(load.shareOf(32, 10_000)).toBeGreaterThan(0.9)
  })

  it('is judged by the same though a shared machine halts it at times, in whole and in halves', () => {
    let runs = 0
    load.runMs = (rows) => (++runs % 200 < 30 ? 3 : 1) * (0.02 + 0.002 * rows)
    load.until(1000)
    expect(load.shareOf(32, 10_000)).toBeGreaterThan(0.9)
    load.runMs = () => (++runs % 200 < 30 ? 3 : 1) * 0.2
    load.until(30_000)
    expect(load.shareOf(64, 60_000)).toBeGreaterThan(0.9)
  })

  it('is judged by what it does while it lasts: callers that pause say nothing of halves', () => {
    for (let round = 0; round < 200; round++) {
      for (let run = 0; run < 10; run++) load.run()
      load.nowMs += 100
    }
    expect(load.batchRows).toBe(64)
  })

  it('is run as a whole where it is small', () => {
    load.callers = 23
    expect(load.until(5000)).toEqual([23])
  })

  it('is looked at as a whole from time to time, as its runs may have become others', () => {
    expect(load.until(200)).toEqual([64, 32])
    load.runMs = () => 0.2
    expect(load.until(20_000).at(-1)).toBe(64)
  })

  it('is run in batches as large as they may be once it does not fit one any more', () => {
    load.until(500)
    load.callers = 256
    const changedAtMs = load.nowMs
    while (load.batchRows !== 64) load.run()
    expect(load.nowMs - changedAtMs).toBeLessThan(5)
    expect(load.until(5000)).toEqual([64])
  })

  it('is waited for once after a trial in vain, for no longer than it took as a whole', () => {
    load.runMs = () => 0.2
    while (load.division.limits().maxQueueDelayMs === 0) load.run()
    const { preferredBatchSizes, maxQueueDelayMs } = load.division.limits()
    expect(preferredBatchSizes).toEqual([64])
    expect(maxQueueDelayMs).toBeCloseTo(0.2 + 64 * load.answerMs, 3)
    load.run()
    expect(load.division.limits()).toBe(limits)
  })

  it('is waited for in eight runs at most, and in eight more whatever it has become, where it does not come together', () => {
    load.runMs = () => 0.2
    while (load.division.limits().maxQueueDelayMs === 0) load.run()
    for (let run = 0; run < 16; run++) load.division.finished(32, 32, load.nowMs, 33, 32, (load.nowMs += 1))
    expect(load.division.limits()).toBe(limits)
  })

  it('of slow runs is tried as rarely, by the time that it takes', () => {
    load.runMs = () => 100
    load.answerMs = 0.3
    const halved = load.shareOf(32, 1_000_000)
    expect(halved).toBeGreaterThan(0)
    expect(halved).toBeLessThan(0.02)
  })

  it('that pauses during a trial is tried again soon, however long the pause was', () => {
    while (!load.division.divides) load.run()
    for (let run = 0; run < 20; run++) load.run()
    load.nowMs += 3_600_000
    const resumedAtMs = load.nowMs
    load.run()
    expect(load.division.limits()).toBe(limits)
    expect(load.until(resumedAtMs + 10_000).at(-1)).toBe(32)
  })

  it('is not kept in parts because everything has become faster since it was seen as a whole', () => {
    ;[load.answerMs, load.runMs] = [0.01, () => 0.2]
    while (!load.division.divides) load.run()
    load.answerMs = 0.002
    expect(load.until(450).at(-1)).toBe(64)
    expect(load.shareOf(64, 5000)).toBeGreaterThan(0.9)
  })

  it('that comes back is divided at once where that was found to give more', () => {
    load.until(50_000)
    load.callers = 256
    expect(load.until(51_000).at(-1)).toBe(64)
    load.callers = 64
    expect(load.until(51_020)).toEqual([64, 32])
  })

  it('that comes back is divided after two runs where these take long', () => {
    load.instances = load.division.instances = 2
    load.callers = 8
    load.runMs = (rows) => 80 * rows
    load.until(20_000)
    load.callers = 1
    load.until(load.nowMs + 1000)
    load.callers = 8
    const cameBackAtMs = load.nowMs
    while (load.batchRows === 8) load.run()
    expect(load.nowMs - cameBackAtMs).toBeLessThan(2500)
  })

  it('is tried anew once there is another number of instances', () => {
    load.until(50_000)
    load.instances = load.division.instances = 4
    expect(load.until(51_000).at(-1)).toBe(16)
  })

  it('is never gathered for good: what comes later waits for no other', () => {
    load.runMs = () => 0.2
    while (load.division.limits().maxQueueDelayMs === 0) load.run()
    const { maxQueueDelayMs, delayEndsAtMs } = load.division.limits()
    expect(delayEndsAtMs).toBeCloseTo(load.nowMs + 3 * maxQueueDelayMs, 6)
  })

  it('that has gone is not waited for by a request that comes alone, however long afterwards', () => {
    expect(load.until(200)).toEqual([64, 32])
    for (const pauseMs of [1, 100, 3_600_000]) {
      load.nowMs += pauseMs
      for (let run = 0; run < 20; run++) {
        load.division.finished(1, 1, load.nowMs, 0, 0, (load.nowMs += 0.02))
        expect(load.division.limits().maxQueueDelayMs).toBe(0)
      }
    }
  })

  it('of which two are left when it is to be looked at again is not waited for', () => {
    expect(load.until(200)).toEqual([64, 32])
    load.nowMs += 3_600_000
    for (let run = 0; run < 20; run++) {
      load.division.finished(1, 1, load.nowMs, 1, 0, (load.nowMs += 0.02))
      expect(load.division.limits().maxQueueDelayMs).toBeLessThan(0.05)
    }
  })

  it('of bursts, however they follow each other, is never kept in parts: these cannot give more', () => {
    const bursts = fc.record({
      instances: fc.integer({ min: 1, max: 5 }),
      rows: fc.integer({ min: 24, max: 64 }),
      everyMs: fc.double({ min: 0.5, max: 600, noNaN: true }),
      runShare: fc.double({ min: 0.01, max: 0.8, noNaN: true }),
    })
    fc.assert(
      fc.property(bursts, ({ instances, rows, everyMs, runShare }) => {
        const division = new LoadDivision(limits)
        division.instances = instances
        let runsInParts = 0
        for (let burst = 1; burst < 3000; burst++) {
          const parts: number[] = []
          for (let left = rows; left > 0; left -= parts.at(-1)!)
            parts.push(Math.min(left, division.limits().preferredBatchSizes[0] ?? 64))
          const [atMs, runMs] = [burst * everyMs, (runShare * everyMs) / parts.length]
          if (parts.length > 1) runsInParts++
          for (const [index, part] of parts.entries()) {
            const takenAtMs = atMs + (instances > 1 ? 0 : Math.max(0, index - 1) * runMs)
            const leftRows = parts.slice(index + 2).reduce((sum, each) => sum + each, 0)
            division.finished(
              part,
              part,
              takenAtMs,
              parts.length - 1 - index,
              instances > 1 ? 0 : leftRows,
              atMs + (index + 1) * runMs,
            )
          }
        }
        expect(runsInParts).toBeLessThan(600)
      }),
      { numRuns: repetitions(200, 20) },
    )
  })

  it('is run as a whole, and nothing is tried, while its runs are on the thread of its callers', () => {
    load.division.runPlace = 'here'
    expect(load.until(5000)).toEqual([64])
  })

  it('is divided at once, and for as long, while all its runs are on the worker', () => {
    load.division.runPlace = 'elsewhere'
    load.run()
    load.run()
    load.runMs = () => 0.2 // whether or not that gives more
    expect(load.until(5000)).toEqual([32])
    load.callers = 32
    expect(load.until(5100).at(-1)).toBe(16)
  })

  it('is a whole again as soon as its runs come back to the thread of its callers, be it during a trial', () => {
    load.division.runPlace = 'elsewhere'
    load.until(100)
    load.division.runPlace = 'here'
    load.run()
    expect(load.division.limits()).toBe(limits)
    load.division.runPlace = null
    while (!load.division.divides) load.run()
    load.division.runPlace = 'here'
    expect(load.run()).toBe(true)
    expect(load.division.limits()).toBe(limits)
  })

  it('that was divided for its place is a whole again once that is not chosen any more, and nothing is held back', () => {
    load.division.runPlace = 'elsewhere'
    load.run()
    load.run()
    load.division.runPlace = null
    while (load.division.divides) load.run()
    expect(load.division.limits()).toBe(limits)
    load.runMs = () => 0.2
    expect(load.until(20_000).at(-1)).toBe(64)
  })

  it('is halved anew once it has become smaller', () => {
    load.until(200)
    load.callers = 30
    expect(load.until(400)).toEqual([30, 15])
  })
})

it.each([
  ['sizes that batches are to have', { ...limits, preferredBatchSizes: [64] }],
  ['a delay', { ...limits, maxQueueDelayMs: 1 }],
  ['no batches at all', { ...limits, joinRequests: false }],
  ['batches of one row', { ...limits, maxBatchSize: 1 }],
  ['what a batch may cost', { ...limits, cost: { maxBatchCost: 100, isPadded: false, maxPaddingShare: 1 } }],
])('where a model has %s, nothing is halved', (_what, others) => {
  expect(LoadDivision.suits(others)).toBe(false)
  expect(LoadDivision.suits(limits)).toBe(true)
})

type Figures = ReturnType<ClosedLoop['figures']>

/** The same load, where it may be divided and where not, after so long. */
function played(
  callers: number,
  runMs: (rows: number) => number,
  endMs: number,
  change: (loop: ClosedLoop, ms: number) => void = () => {},
): ClosedLoop[] {
  return [true, false].map((divides) => {
    const loop = new ClosedLoop(limits, callers, runMs, divides)
    for (let ms = 0; ms < endMs; ms += 50) {
      change(loop, ms)
      loop.until(ms + 50)
    }
    return loop
  })
}

/** What it gives where it may be divided, by what it gives where not. */
function compared(loops: readonly ClosedLoop[], fromMs: number, toMs: number) {
  const [divided, whole] = loops.map((loop) => loop.figures(fromMs, toMs)) as [Figures, Figures]
  return {
    rate: divided.perMs / whole.perMs,
    p99: divided.p99Ms / whole.p99Ms,
    longest: divided.longestMs / whole.longestMs,
  }
}

describe('callers in turn before the queue and a worker', () => {
  it('are served in one batch again after a trial in vain, although halves would go on by themselves', () => {
    const loop = new ClosedLoop(limits, 64, () => 0.2).until(200)
    expect(loop.sizes).toContain(32)
    expect(new Set(loop.sizes.slice(-100))).toEqual(new Set([64]))
  })

  it('gain by halves where runs and answers overlap, for as long as that lasts', () => {
    const endMs = repetitions(5000, 2000)
    expect(
      compared(
        played(64, (rows) => 0.02 + 0.002 * rows, endMs),
        1000,
        endMs,
      ).rate,
    ).toBeGreaterThan(1.5)
  })

  it.each(full ? [33, 64, 90] : [33, 64])(
    'lose nothing by it where a run takes as long however few rows it has (%d callers)',
    (callers) => {
      const endMs = repetitions(5000, 3000)
      expect(
        compared(
          played(callers, () => 0.2, endMs),
          1000,
          endMs,
        ).rate,
      ).toBeGreaterThan(0.98)
    },
  )

  it('lose hardly anything though their number changes all the time, and soon nothing', () => {
    const change = (loop: ClosedLoop, ms: number) => void (loop.callers = ms % 300 < 150 ? 64 : 30)
    const loops = played(64, () => 0.2, repetitions(20_000, 5000), change)
    expect(compared(loops, 1000, repetitions(5000, 3000)).rate).toBeGreaterThan(0.97)
    const { rate, p99 } = full ? compared(loops, 10_000, 20_000) : compared(loops, 3000, 5000)
    expect(rate).toBeGreaterThan(0.99)
    expect(p99).toBeLessThan(1.1)
  })

  it.each(Array.from({ length: repetitions(12, 4) }, (_, index) => 20 + repetitions(10, 30) * index))(
    'are served as a whole again where fewer are left in the middle of a trial (%d ms)',
    (changedAtMs) => {
      const loop = new ClosedLoop(limits, 64, () => 0.2).until(changedAtMs)
      loop.callers = 40
      loop.until(repetitions(3000, 1000))
      expect(loop.sizes.slice(-1000).filter((rows) => rows < 40).length).toBeLessThan(300)
    },
  )

  it('are served as a whole again where fewer are left in a trial, none of which is waited for in vain', () => {
    for (let changedAtMs = 10; changedAtMs < 60; changedAtMs += repetitions(1, 10)) {
      const loop = new ClosedLoop(limits, 64, () => 0.2).until(changedAtMs)
      loop.callers = 20
      expect([changedAtMs, new Set(loop.until(500).sizes.slice(-100))]).toEqual([changedAtMs, new Set([20])])
    }
  })

  it.runIf(full)(
    'lose little whatever their numbers and runs are, and none waits for long',
    () => {
      const phase = fc.record({
        callers: fc.integer({ min: 1, max: 100 }),
        ms: fc.integer({ min: 1, max: 20 }),
      })
      const history = fc.record({
        phases: fc.array(phase, { minLength: 1, maxLength: 4 }),
        fixedMs: fc.double({ min: 0.02, max: 0.5, noNaN: true }),
        rowMs: fc.double({ min: 0, max: 0.01, noNaN: true }),
      })
      const rates = fc.sample(history, 30).map(({ phases, fixedMs, rowMs }) => {
        const turns = phases.flatMap(({ callers, ms }) => Array.from({ length: ms }, () => callers))
        const runMs = (rows: number) => fixedMs + rowMs * rows
        const change = (loop: ClosedLoop, ms: number) =>
          void (loop.callers = turns[(ms / 50) % turns.length]!)
        const { rate, longest } = compared(played(turns[0]!, runMs, 2000, change), 0, 2000)
        expect(longest).toBeLessThan(3)
        return rate
      })
      expect(rates.reduce((sum, rate) => sum + Math.log(rate), 0) / rates.length).toBeGreaterThan(
        Math.log(0.97),
      )
      // Fewer callers than before may come to be in two batches that follow each other, with or without parts: that is chance.
      expect(rates.filter((rate) => rate < 0.93).length).toBeLessThanOrEqual(3)
    },
    120_000,
  )

  it('that are one more than were seen as a whole come together again', () => {
    const change = (loop: ClosedLoop, ms: number) => void (loop.callers = ms % 150 === 0 ? 25 : 24)
    expect(
      compared(
        played(25, () => 0.086, 2000, change),
        0,
        2000,
      ).rate,
    ).toBeGreaterThan(0.95)
  })

  it('are served as a whole soon once halves, which gave more, give less', () => {
    const change = (loop: ClosedLoop, ms: number) => {
      if (ms >= 1000) loop.runMs = () => 0.2
    }
    const loops = played(64, (rows) => 0.02 + 0.002 * rows, 5000, change)
    const { rate } = compared(loops, 1000, 5000)
    expect(rate).toBeGreaterThan(0.9)
  })
})

/** Runs of ten rows, each of which takes so many milliseconds: what is said at which of them. */
function said(tookMs: readonly number[], parts = 1): [run: number, rate: number] | null {
  const rate = new AttainedRate()
  let nowMs = 100
  rate.begin(nowMs)
  for (const [run, ms] of tookMs.entries()) {
    const perMs = rate.ran(10, parts, (nowMs += ms))
    if (perMs !== null) return [run + 1, perMs]
  }
  return null
}

describe('the rate that a load attains', () => {
  it('is told after six windows of ten milliseconds', () => {
    expect(said(Array<number>(100).fill(1))).toEqual([60, 10])
    expect(said(Array<number>(59).fill(1))).toBeNull()
  })

  it('is that of the second best of them: neither what was slow at first nor what met something else', () => {
    const windows = [4, 2, 1, 0.5, 3, 1].flatMap((ms) =>
      Array<number>(Math.max(4, Math.ceil(10 / ms))).fill(ms),
    )
    expect(said(windows)![1]).toBeCloseTo(10, 6)
  })

  it('has the whole load four times in a window, however many parts that has, and no part of it besides', () => {
    expect(said(Array<number>(100).fill(15))![0]).toBe(24)
    expect(said(Array<number>(100).fill(7.5), 2)![0]).toBe(48)
    expect(said(Array<number>(1000).fill(0.7), 4)![0]).toBe(96)
  })

  it('is told after half a second, with the whole load twice at least', () => {
    expect(said(Array<number>(10).fill(400))![0]).toBe(2)
    expect(said(Array<number>(10).fill(400), 2)![0]).toBe(4)
    expect(said(Array<number>(10).fill(200))![0]).toBe(3)
    expect(said(Array<number>(10).fill(100))![0]).toBe(8)
  })

  it('begins anew', () => {
    const rate = new AttainedRate()
    rate.begin(0)
    for (let run = 1; run <= 20; run++) rate.ran(1, 1, run * 10)
    rate.begin(1000)
    expect(rate.sinceMs).toBe(1000)
    for (let run = 1; run < 24; run++) expect(rate.ran(10, 1, 1000 + run * 10)).toBeNull()
    expect(rate.ran(10, 1, 1240)).toBeCloseTo(1, 6)
  })
})
