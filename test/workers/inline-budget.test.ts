import { beforeEach, expect, it, vi } from 'vitest'
import type { InstanceUse } from '../../src/run/model-instance.ts'
import { InlineBudget, RunPlace } from '../../src/run/thread-time.ts'

const at = (nowMs: number) => ({ now: nowMs })

/** What runs batches, as a budget sees it. */
const placed = () => ({ mayBePlaced: true, use: { rows: 0 } as InstanceUse, runPlace: new RunPlace() })

let source = placed()
beforeEach(() => {
  source = placed()
})

function budget(options: { maxUs: number; loopShare: number }) {
  const time = at(1000)
  const clock = { nowMs: () => time.now, setTimer: () => 0, clearTimer: () => {} }
  return { time, budget: new InlineBudget(clock, options) }
}

it('allows runs that are known to be short', () => {
  const { budget: own } = budget({ maxUs: 50, loopShare: 0.5 })
  expect([0, 0.001, 0.05, 0.051].map((runMs) => own.allows(runMs, source))).toEqual([
    false,
    true,
    true,
    false,
  ])
})

it('allows runs of half that length while more waits, which this thread could see to meanwhile', () => {
  const { budget: own } = budget({ maxUs: 100, loopShare: 0.5 })
  expect([0, 0.05, 0.051].map((runMs) => own.allows(runMs, source, true))).toEqual([false, true, false])
})

it('allows a quarter of a millisecond of runs at a stretch, then the share of the time that has passed', () => {
  const { time, budget: own } = budget({ maxUs: 62.5, loopShare: 0.25 })
  let runs = 0
  for (; own.allows(0.0625, source); runs++) own.spent(0.0625, source)
  expect(runs).toBe(4)
  time.now += 0.1
  expect(own.allows(0.05, source)).toBe(true)
  own.spent(0.05, source)
  expect(own.allows(0.05, source)).toBe(false)
  time.now += 1000
  for (runs = 0; own.allows(0.0625, source); runs++) own.spent(0.0625, source)
  expect(runs).toBe(4)
})

it('is in debt for a run that took longer than was reckoned', () => {
  const { time, budget: own } = budget({ maxUs: 50, loopShare: 0.5 })
  own.spent(5, source)
  time.now += 8
  expect(own.allows(0.05, source)).toBe(false)
  time.now += 2
  expect(own.allows(0.05, source)).toBe(true)
})

it('allows none of a model for a second of which a run took surprisingly long, and for a minute when another does', () => {
  const { time, budget: own } = budget({ maxUs: 50, loopShare: 1 })
  own.spent(11, source)
  time.now += 1099
  expect(own.allows(0.05, source)).toBe(false)
  time.now += 1
  expect(own.allows(0.05, source)).toBe(true)
  own.spent(11, source)
  time.now += 59_999
  expect(own.allows(0.05, source)).toBe(false)
  expect(own.allows(0.05, placed())).toBe(true)
  time.now += 1
  expect(own.allows(0.05, source)).toBe(true)
})

it('counts no run of a model as short once one of them took surprisingly long', () => {
  const { budget: own } = budget({ maxUs: 50, loopShare: 1 })
  expect(own.shortMs(source)).toBe(0.025)
  expect(
    own.shortMs({ ...source, runPlace: Object.assign(new RunPlace(), { present: 'here' as const }) }),
  ).toBe(0.05)
  expect(own.shortMs({ ...source, mayBePlaced: false })).toBe(0)
  own.spent(11, source)
  expect(own.shortMs(source)).toBe(0)
})

it('goes on with a model of which a run took long while the system gave the core to others', () => {
  const time = at(1000)
  let cpuMs = 70
  const clock = { nowMs: () => time.now, setTimer: () => 0, clearTimer: () => {} }
  const own = new InlineBudget(clock, { maxUs: 50, loopShare: 1 }, () => cpuMs)
  time.now += 30
  cpuMs += 6
  expect(own.allows(0.05, source)).toBe(true)
  for (const computedMs of [0.03, 9, 0.03, 11]) {
    time.now += 3
    cpuMs += 3
    expect(own.allows(0.05, source)).toBe(true)
    time.now += 400
    cpuMs += computedMs
    own.spent(400, source)
    time.now += 400
  }
  expect(own.allows(0.05, source)).toBe(false)
})

it('allows no more than a stretch before the event loop has had its turn, whatever the share', () => {
  const time = at(1000)
  const clock = { nowMs: () => time.now, setTimer: () => 0, clearTimer: () => {} }
  const turns: (() => void)[] = []
  const own = new InlineBudget(clock, { maxUs: 125, loopShare: 1 }, undefined, (then) => turns.push(then))
  const stretch = () => {
    let runs = 0
    for (; own.allows(0.125, source); runs++) {
      time.now += 0.125
      own.spent(0.125, source)
    }
    return runs
  }
  expect(stretch()).toBe(2)
  time.now += 1000
  expect(own.allows(0.125, source)).toBe(false)
  expect(turns.length).toBe(1)
  turns.shift()!()
  expect(stretch()).toBe(2)
})

it.each(['here', null] as const)(
  'counts what the thread does between runs, as it is busy with answers and requests: place %s',
  (present) => {
    const clock = { time: 1000, nowMs: () => clock.time, setTimer: () => 0, clearTimer: () => {} }
    const turns: (() => void)[] = []
    const own = new InlineBudget(clock, { maxUs: 50, loopShare: 1 }, undefined, (then) => turns.push(then))
    source.runPlace.present = present
    const runsAfter = (betweenMs: number) => {
      let runs = 0
      for (clock.time += 10; own.allows(0.02, source); runs++)
        own.spent(0.02, source, (clock.time += betweenMs + 0.02))
      expect(turns.length).toBe(1)
      turns.shift()!()
      return runs
    }
    expect([0, 0.03, 0.05, 100].map(runsAfter)).toEqual([13, 6, 5, 2])
  },
)

it.each([
  [0.13, 1],
  [0.1, 2],
  [0.021, 9],
])(
  'counts answers and requests: after the turn a run comes first, then %f ms of them, with as much expected of the next run',
  (betweenMs, runsOfStretch) => {
    const { own, time, turn } = withTurns()
    const steps = () => {
      for (let runs = 0; ; runs++) {
        if (own.awaitsTurn(source, 0.005, () => {})) return runs
        time.now += 0.005
        own.spent(0.005, source)
        time.now += betweenMs
      }
    }
    for (let stretch = 0; stretch < 5; stretch++) {
      expect(steps()).toBe(runsOfStretch)
      turn()
    }
  },
)

it('awaits no turn for a run that is too long for this thread', () => {
  const { own, run } = withTurns()
  run(0.2)
  expect([0.4, 0.41].map((ms) => own.awaitsTurn(source, ms, () => {}))).toEqual([true, false])
})

it('allows none with a share of 0 once the first stretch is used up', () => {
  const { time, budget: own } = budget({ maxUs: 50, loopShare: 0 })
  own.spent(1, source)
  time.now += 1e6
  expect(own.allows(0.05, source)).toBe(false)
})

/** A model that always has work: `rate` rows a millisecond, in batches of 32, by where they run. */
function loaded(rate: { here: number; elsewhere: number }, free = { cores: NaN }) {
  const time = at(1000)
  const clock = { nowMs: () => time.now, setTimer: () => 0, clearTimer: () => {} }
  let [freeMs, freeToMs] = [5e5, time.now]
  let reads = 0
  const freeCoresMs = () => {
    reads++
    freeMs += (time.now - freeToMs) * free.cores
    freeToMs = time.now
    return freeMs
  }
  const own = new InlineBudget(clock, { maxUs: 200, loopShare: 1 }, undefined, undefined, freeCoresMs)
  const source = placed()
  const run = (ms: number, busyShare = 0.9, runMs = 0.1): ('here' | 'elsewhere')[] => {
    const places: ('here' | 'elsewhere')[] = []
    for (const endMs = time.now + ms; time.now < endMs;) {
      const place = source.runPlace.present ?? 'elsewhere'
      places.push(place)
      const tookMs = 32 / rate[place]
      time.now += tookMs
      source.use.rows += 32
      own.ran(source, runMs, tookMs * busyShare)
    }
    return places
  }
  const shareHere = (places: string[]) => places.filter((place) => place === 'here').length / places.length
  return { own, source, run, shareHere, reads: () => reads }
}

it.each([
  ['here, where that gives as much', { here: 300, elsewhere: 300 }, 1],
  ['here, on a busy machine, where two threads wait for the same core', { here: 300, elsewhere: 150 }, 1],
  ['here, where the worker gains little', { here: 300, elsewhere: 340 }, 1],
  ['on the worker, where that gives more', { here: 300, elsewhere: 400 }, 0],
])('runs all batches of a loaded model %s', (_, rate, expected) => {
  const { run, shareHere } = loaded(rate)
  run(2400) // the first comparisons
  expect(shareHere(run(500))).toBe(expected)
})

it('compares again soon, and after three times twice as late each time that the verdict is the same, up to eight seconds', () => {
  const { run, shareHere } = loaded({ here: 300, elsewhere: 150 })
  run(80)
  for (let comparison = 0; comparison < 3; comparison++) {
    expect(shareHere(run(280))).toBe(1)
    expect(shareHere(run(80))).toBeLessThan(0.9)
  }
  expect(shareHere(run(560))).toBe(1)
  run(20_000)
  const shareOfEightSeconds = shareHere(run(8000))
  expect(shareOfEightSeconds).toBeGreaterThan(0.99)
  expect(shareOfEightSeconds).toBeLessThan(1)
})

it('tries the worker once, and then only where others leave one and a half cores, or after a minute', () => {
  const rate = { here: 300, elsewhere: 150 }
  const free = { cores: 1.45 }
  const { run, shareHere, reads } = loaded(rate, free)
  expect(shareHere(run(100))).toBeLessThan(0.9)
  const readsBefore = reads()
  expect(shareHere(run(20_000))).toBe(1)
  expect(reads() - readsBefore).toBeGreaterThan(60)
  expect(reads() - readsBefore).toBeLessThan(70)
  expect(shareHere(run(41_000))).toBeLessThan(1)
  expect(shareHere(run(2000))).toBe(1)
  rate.elsewhere = 600
  free.cores = 1.55
  run(1000)
  expect(shareHere(run(200))).toBeLessThan(0.6)
})

it('looks for free cores every 0.3 s, however long the last verdict held', () => {
  const free = { cores: 2 }
  const { run, shareHere, reads } = loaded({ here: 300, elsewhere: 150 }, free)
  run(5000)
  free.cores = 1
  expect(shareHere(run(10_000))).toBeGreaterThan(0.99)
  const readsBefore = reads()
  run(3000)
  expect(reads() - readsBefore).toBeGreaterThanOrEqual(9)
  free.cores = 2
  expect(shareHere(run(700))).toBeLessThan(1)
})

it('makes the first comparison, though others leave no core, after one that was broken off', () => {
  const { run, shareHere } = loaded({ here: 300, elsewhere: 150 }, { cores: 1 })
  run(20)
  run(40, 0.1) // there is little load
  run(15)
  expect(shareHere(run(100))).toBeLessThan(0.9)
  expect(shareHere(run(1000))).toBe(1)
})

it('tries this thread again however few cores others leave, as the worker may have lost by that', () => {
  const rate = { here: 300, elsewhere: 600 }
  const free = { cores: 2 }
  const { run, shareHere } = loaded(rate, free)
  run(2400)
  expect(shareHere(run(500))).toBe(0)
  ;[rate.elsewhere, free.cores] = [150, 1]
  run(20_000)
  expect(shareHere(run(5000))).toBe(1)
})

it('ends a comparison after half of it where the present place is clearly better, be it here or elsewhere', () => {
  for (const [rate, there] of [
    [{ here: 300, elsewhere: 260 }, 'elsewhere'],
    [{ here: 300, elsewhere: 360 }, 'here'],
  ] as const) {
    const { source, run } = loaded(rate)
    run(300) // two comparisons at most, until one is confirmed
    const present = source.runPlace.present
    while (source.runPlace.present === present) run(1)
    let ms = 0
    for (; source.runPlace.present === there || ms < 16; ms++) run(1)
    expect(ms).toBeLessThan(50)
  }
})

it('compares to the end where neither place is clearly better', () => {
  const { source, run } = loaded({ here: 300, elsewhere: 330 })
  run(300)
  while (source.runPlace.present === 'here') run(1)
  const places = Array.from({ length: 120 }, () => (run(1), source.runPlace.present))
  expect(places.filter((place) => place === 'elsewhere').length).toBeGreaterThan(50)
})

it('moves when it has found twice in a row that the other place is better', () => {
  const rate = { here: 300, elsewhere: 150 }
  const { run, shareHere } = loaded(rate)
  run(140)
  rate.elsewhere = 600
  run(370) // what may have disturbed the comparison
  rate.elsewhere = 150
  expect(shareHere(run(280))).toBeGreaterThan(0.5)
  rate.elsewhere = 600
  run(2000)
  expect(shareHere(run(280))).toBe(0)
})

it.each([
  ['there is little load', 0.15, 0.1],
  ['most runs are long', 0.9, 0.3],
])('leaves the choice of the place where %s', (_, busyShare, runMs) => {
  const { own, source, run } = loaded({ here: 300, elsewhere: 150 })
  run(500)
  expect(source.runPlace.present).toBe('here')
  run(40, busyShare, runMs)
  expect(source.runPlace.present).toBe(null)
  expect(own.allows(0.1, source)).toBe(true)
})

it('runs none of a model here that is better off on the worker', () => {
  const { own, source, run } = loaded({ here: 300, elsewhere: 600 })
  run(500)
  expect(own.allows(0.01, source)).toBe(false)
  source.mayBePlaced = false
  own.ran(source, 0.1, 0.1)
  expect(own.allows(0.01, source)).toBe(true)
})

/** A budget where all batches run here, with the turns of the event loop that were asked for. */
function withTurns({ loopShare = 1 } = {}) {
  const time = at(1000)
  const clock = { nowMs: () => time.now, setTimer: () => 0, clearTimer: () => {} }
  const turns: (() => void)[] = []
  const own = new InlineBudget(clock, { maxUs: 400, loopShare }, undefined, (then) => turns.push(then))
  source.runPlace.present = 'here'
  const run = (ms: number) => {
    time.now += ms
    own.spent(ms, source)
  }
  /** Runs until a turn is awaited; returns how many. */
  const runsOf = (ms: number) => {
    let runs = 0
    for (; runs < 99 && !own.awaitsTurn(source, ms, () => {}); runs++) run(ms)
    return runs
  }
  const turn = () => turns.shift()!()
  return { time, own, run, runsOf, turns, turn }
}

it('goes on with what waits once the event loop has had its turn', () => {
  const { own, run, turns, turn } = withTurns()
  const resume = vi.fn()
  expect(own.awaitsTurn(source, 0.3, resume)).toBe(false)
  run(0.5)
  expect([own.awaitsTurn(source, 0.3, resume), own.awaitsTurn(source, 0.3, resume)]).toEqual([true, true])
  expect(turns.length).toBe(1)
  expect(resume).not.toHaveBeenCalled()
  turn()
  expect(resume).toHaveBeenCalledOnce()
  expect(own.awaitsTurn(source, 0.3, resume)).toBe(false)
})

it('goes on with what waits for a turn, whatever another one meets in its own', () => {
  const { own, run, turns, turn } = withTurns()
  const resume = vi.fn()
  run(0.5)
  own.awaitsTurn(source, 0, () => {
    throw new Error('on purpose')
  })
  own.awaitsTurn(source, 0, resume)
  expect(turns.shift()).toThrow('on purpose')
  turn()
  expect(resume).toHaveBeenCalledOnce()
})

it.each([
  [0.02, 10],
  [0.06, 2],
  [0.0626, 1],
  [0.3, 1],
])(
  'has the event loop take its turn before a run and its answers might exceed the stretch: %f ms',
  (ms, runs) => {
    const { runsOf, turn } = withTurns()
    expect(runsOf(ms)).toBe(runs)
    turn()
    expect(runsOf(ms)).toBe(runs)
  },
)

it('asks for the turn with the first run, so that it is over when a run comes later', () => {
  const { own, run, time, turns, turn } = withTurns()
  run(0.06)
  run(0.05)
  expect(turns.length).toBe(1)
  time.now += 100
  turn()
  expect(own.awaitsTurn(source, 0.07, () => {})).toBe(false)
})

it('expects of a run what the last one of its own model took', () => {
  const { own, run, turns } = withTurns()
  run(0.03)
  expect(own.awaitsTurn(source, 0.07, () => {})).toBe(false)
  expect(own.awaitsTurn(source, 0.08, () => {})).toBe(true)
  expect(turns.length).toBe(1)
})

it.each([
  [0.09, false],
  [0.11, true],
])('counts answers of the worker for the run after them: %f ms', (answersMs, awaits) => {
  const { own, time, turns, turn } = withTurns()
  own.occupies(time.now)
  expect(turns.length).toBe(1)
  time.now += answersMs
  expect(own.awaitsTurn(source, 0.05, () => {})).toBe(awaits)
  turn()
  expect(own.awaitsTurn(source, 0.05, () => {})).toBe(false)
})

it.each([
  ['a run took surprisingly long', { elsewhereUntilMs: Infinity }, 0.1],
  ['it is too long while others wait', { present: null }, 0.21],
])('awaits no turn for a run that the worker has anyway: %s', (_, place, lastMs) => {
  const { own, run } = withTurns()
  run(0.3)
  expect(
    own.awaitsTurn({ runPlace: Object.assign(new RunPlace(), { present: 'here' }, place) }, lastMs, () => {}),
  ).toBe(false)
  expect(
    own.awaitsTurn({ runPlace: Object.assign(new RunPlace(), { present: 'here' }) }, lastMs, () => {}),
  ).toBe(true)
})

it('does not count the turn itself for the run after it', () => {
  const { run, runsOf, time, turn } = withTurns()
  run(0.3)
  time.now += 5
  turn()
  run(0.02)
  expect(runsOf(0.02)).toBe(9)
})

it('awaits no turn once the share of the time is used up: the worker runs those', () => {
  const { own, run, time } = withTurns({ loopShare: 0.1 })
  for (let runs = 0; runs < 3; runs++) run(0.1)
  expect(own.awaitsTurn(source, 0.1, () => {})).toBe(false)
  expect(own.allows(0.1, source)).toBe(false)
  time.now += 1
  expect(own.awaitsTurn(source, 0.1, () => {})).toBe(true)
})

it('gives each that waits for a turn a stretch of its own, one after the other', () => {
  const { own, run, turn } = withTurns()
  const served: number[] = []
  for (const worker of [0, 1, 2]) {
    const dispatch = (): void => {
      while (served.length < 99 && !own.awaitsTurn(source, 0.06, dispatch)) {
        served.push(worker)
        run(0.06)
      }
    }
    dispatch()
  }
  for (let turns = 0; turns < 5; turns++) turn()
  expect(served).toEqual([0, 0, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1])
})
