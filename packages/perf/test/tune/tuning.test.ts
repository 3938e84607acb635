import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  batchSizesOf,
  type Configuration,
  layoutsOf,
  optionsFor,
  saturating,
} from '../../src/tune/configuration.ts'
import { KeptState } from '../../src/tune/state-file.ts'
import { tune } from '../../src/tune/tuning.ts'
import type { TuneSettings } from '../../src/tune/tune-settings.ts'
import { mulberry32 } from '../../../../test/models/random.ts'
import { FakeGround, quiet, type FakeMachine, type Noise } from './fake-ground.ts'
import { full, repetitions } from '../../../../test/support/full.ts'

const folder = mkdtempSync(join(tmpdir(), 'zerohop-tune-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const path = join(folder, 'model.onnx')
const statePath = join(folder, 'state.json')
const dataPath = join(folder, 'data.json')

beforeEach(() => {
  writeFileSync(path, 'a model')
  rmSync(statePath, { force: true })
})

/** Writing the state after each measurement takes longer than a simulated search. Returns how to have it written again. */
function withoutSaving(): () => void {
  const save = vi.spyOn(KeptState.prototype, 'save').mockReturnValue()
  return () => save.mockRestore()
}

const space = { instances: [1, 2, 4], threads: [1, 2, 4], delaysMs: [0] }
const cores = 4
const settings: TuneSettings = {
  path,
  statePath,
  space,
  options: {},
  kind: 'auto',
  fresh: false,
  budgetMs: 120_000,
  measuring: { requests: { rows: 1, shapes: [], inputData: ['random'] }, engine: {} },
}
const untilEnd = () => new AbortController().signal
const byDefault: Configuration = { instances: 1, threads: 4, maxBatchSize: 32, maxQueueDelayMs: 0 }

/** A run has a fixed part, and one for each row; threads help with both, less and less, and instances are in each other's way. */
function machine(seed: number): FakeMachine {
  let made = machines.get(seed)
  if (made === undefined) machines.set(seed, (made = newMachine(seed)))
  return made
}

/** One for each seed: what was simulated of it serves all tests. */
const machines = new Map<number, FakeMachine>()

function newMachine(seed: number): FakeMachine {
  const random = mulberry32(seed)
  const [fixedMs, rowMs] = [20 * random() ** 3, 0.2 + 10 * random() ** 2]
  const [gain, contention, crowding] = [0.3 + 0.65 * random(), 0.6 * random(), 0.05 * random()]
  const runMs = ({ instances, threads, maxBatchSize }: Configuration) => {
    const rows = Math.max(1, maxBatchSize)
    const oversubscribed = Math.max(1, (instances * threads) / cores)
    return (
      ((fixedMs + rowMs * rows * (1 + crowding * Math.log2(rows))) / threads ** gain) *
      oversubscribed *
      (1 + (contention * (instances - 1)) / 3)
    )
  }
  return { runMs, byDefault, loadMs: 400 }
}

/** Throughput of the best configuration of the whole grid. */
function bestOfAll(ground: FakeGround, batchSizes = batchSizesOf({}, true, 1)): number {
  const all = layoutsOf(space, cores).flatMap((layout) =>
    batchSizes.map((maxBatchSize) => ({ ...layout, maxBatchSize, maxQueueDelayMs: 0 })),
  )
  return Math.max(
    ...all.map((each) => ground.truth(each, { concurrency: saturating(each, 1) }).rowsPerSecond),
  )
}

async function shareOfBest(seed: number, noise: Noise): Promise<number> {
  rmSync(statePath, { force: true })
  const ground = new FakeGround(machine(seed), noise)
  const { best } = await tune(settings, {}, untilEnd(), ground)
  const { configuration, load } = best!.candidate
  return ground.truth(configuration, load).rowsPerSecond / bestOfAll(ground)
}

const noisy = { scatter: 0.02, disturbed: 0.05, drift: 0.02 }
const showsAll = (ground: FakeGround) => ground.tasks.filter(({ type }) => type === 'measure').length

describe('tuning a model for throughput', () => {
  beforeEach(withoutSaving)

  it('finds the best configuration of the whole grid on a quiet machine', async () => {
    const shares = []
    for (let seed = 1; seed <= repetitions(10, 2); seed++) shares.push(await shareOfBest(seed, quiet))
    expect(Math.min(...shares)).toBeGreaterThan(0.985)
  })

  it('finds one with 97 % of its throughput on a noisy one, in 95 of 100', async () => {
    const shares = []
    const times = repetitions(40, 3)
    for (let seed = 1; seed <= times; seed++) shares.push(await shareOfBest(seed, { ...noisy, seed }))
    expect(shares.filter((share) => share >= 0.97).length).toBeGreaterThanOrEqual(Math.floor(0.95 * times))
  })

  it('shows the default beside it, which was measured as well', async () => {
    const ground = new FakeGround(machine(1))
    const { best, rows } = await tune(settings, {}, untilEnd(), ground)
    const its = rows.find(({ isDefault }) => isDefault)!
    expect(its.rounds).toBeGreaterThanOrEqual(2)
    expect(best!.toDefault).toBeCloseTo(best!.measured!.rowsPerSecond / its.measured!.rowsPerSecond, 10)
    expect(best!.toDefault).toBeGreaterThan(1)
  })

  it('tries no batches of a model whose requests are not joined, and says why', async () => {
    const ground = new FakeGround({ ...machine(2), byDefault: { ...byDefault, maxBatchSize: 0 } })
    const { rows, notes } = await tune(settings, {}, untilEnd(), ground)
    expect(new Set(rows.map(({ candidate }) => candidate.configuration.maxBatchSize))).toEqual(new Set([0]))
    expect(notes).toContainEqual(expect.stringMatching(/^batches were not tried: rows gave the same/))
  })

  it('goes on without a configuration that dies, and without one that hangs', async () => {
    const fails: NonNullable<FakeMachine['fails']> = ({ threads, instances }) =>
      instances === 4 ? 'crash' : threads === 4 ? 'hang' : null
    const ground = new FakeGround({ ...machine(1), byDefault: { ...byDefault, threads: 2 }, fails })
    const { best, end } = await tune({ ...settings, budgetMs: 400_000 }, {}, untilEnd(), ground)
    expect(best!.candidate.configuration).toMatchObject({ instances: 2, threads: 2, maxBatchSize: 128 })
    expect(end).toBe('decided')
    expect(ground.living).toBe(0)
  })

  it('says why one failed that was measured beside others', async () => {
    let measured = 0
    const fails: NonNullable<FakeMachine['fails']> = ({ maxBatchSize }) =>
      maxBatchSize === 128 && ++measured > 12 ? 'crash' : null
    const { rows, best } = await tune(settings, {}, untilEnd(), new FakeGround({ ...machine(1), fails }))
    expect(rows.some(({ failure, isKept }) => failure === 'its process ended with SIGABRT' && !isKept)).toBe(
      true,
    )
    expect(best!.failure).toBeNull()
  })
})

describe('the bound of', () => {
  const given = (more: Partial<TuneSettings>) => ({ ...settings, ...more })

  it.each(full ? [1, 3, 6, 7] : [3])('latency is kept, and made use of (machine %i)', async (seed) => {
    onTestFinished(withoutSaving())
    const ground = new FakeGround(machine(seed), { ...noisy, disturbed: 0, seed })
    const p99Ms = 6 * machine(seed).runMs({ ...byDefault, maxBatchSize: 8 })
    // Many numbers of callers are simulated for each configuration.
    const searched = full ? space : { instances: [1, 2], threads: [1, 4], delaysMs: [0] }
    const { best } = await tune(given({ p99Ms, budgetMs: 240_000, space: searched }), {}, untilEnd(), ground)
    const { configuration, load } = best!.candidate
    const found = ground.truth(configuration, load)
    expect(found.p99Ms).toBeLessThan(p99Ms * 1.05)
    const layouts = layoutsOf(searched, cores).flatMap((layout) =>
      [1, 2, 4, 8, 16, 32, 64, 128].map((maxBatchSize) => ({ ...layout, maxBatchSize, maxQueueDelayMs: 0 })),
    )
    const all = layouts.flatMap((each) =>
      [0.25, 0.5, 1].map((share) =>
        ground.truth(each, { concurrency: Math.max(1, Math.round(share * saturating(each, 1))) }),
      ),
    )
    const best8 = Math.max(
      ...all.filter((each) => each.p99Ms <= p99Ms).map(({ rowsPerSecond }) => rowsPerSecond),
    )
    expect(found.rowsPerSecond).toBeGreaterThan(0.93 * best8)
  })

  const cases = [
    [1, 'alone'],
    [3, 'after a call without a bound'],
  ] as const
  const others = [
    [3, 'alone'],
    [7, 'alone'],
  ] as const
  it.each(full ? [...cases, ...others] : cases)(
    'memory is kept, and made use of (machine %i, %s)',
    async (seed, how) => {
      const memoryBytes = ({ instances, maxBatchSize }: Configuration) =>
        5e7 + 5e7 * instances + 3e6 * instances * maxBatchSize
      const ground = new FakeGround({ ...machine(seed), memoryBytes })
      if (how !== 'alone')
        await tune(settings, {}, untilEnd(), new FakeGround({ ...machine(seed), memoryBytes }))
      const { best } = await tune(given({ memoryBytes: 2.5e8 }), {}, untilEnd(), ground)
      const { configuration, load } = best!.candidate
      expect(memoryBytes(configuration)).toBeLessThanOrEqual(2.5e8)
      const grid = layoutsOf(space, cores).flatMap((layout) =>
        batchSizesOf({}, true, 1).map((maxBatchSize) => ({ ...layout, maxBatchSize, maxQueueDelayMs: 0 })),
      )
      const kept = grid
        .filter((each) => memoryBytes(each) <= 2.4e8)
        .map((each) => ground.truth(each, { concurrency: saturating(each, 1) }).rowsPerSecond)
      expect(ground.truth(configuration, load).rowsPerSecond).toBeGreaterThan(0.97 * Math.max(...kept))
    },
  )

  it('either that nothing keeps is told', async () => {
    const { best, rows } = await tune(given({ memoryBytes: 1e6 }), {}, untilEnd(), new FakeGround(machine(1)))
    expect(best).toBeNull()
    expect(rows.every(({ isKept }) => !isKept)).toBe(true)
  })

  it('a rate decides: of those that keep up the one with the lowest p99 is best', async () => {
    const ground = new FakeGround(machine(3))
    const rate = 0.5 * bestOfAll(ground)
    const { best } = await tune(given({ rate }), {}, untilEnd(), ground)
    const found = ground.truth(best!.candidate.configuration, { rate })
    expect(found.rowsPerSecond).toBeGreaterThan(0.97 * rate)
    const unkept = ground.truth(byDefault, { rate })
    expect(found.p99Ms).toBeLessThan(unkept.p99Ms)
  })
})

describe('the time', () => {
  it.each([500, 2000, 10_000, 30_000, 60_000])(
    'of a budget of %i ms is never gone over, whatever hangs',
    async (budgetMs) => {
      onTestFinished(withoutSaving())
      for (const fails of [
        () => null,
        ({ instances }: Configuration) => (instances > 1 ? ('hang' as const) : null),
      ]) {
        rmSync(statePath, { force: true })
        const ground = new FakeGround({ ...machine(3), fails }, { ...noisy, seed: 3 })
        await tune({ ...settings, budgetMs }, {}, untilEnd(), ground)
        expect(ground.clock.nowMs()).toBeLessThanOrEqual(budgetMs)
        expect(ground.living).toBe(0)
      }
    },
  )

  it('that is over before anything was measured is told', async () => {
    const { best, rows, end } = await tune(
      { ...settings, budgetMs: 300 },
      {},
      untilEnd(),
      new FakeGround(machine(1)),
    )
    expect({ best, rows, end }).toEqual({ best: null, rows: [], end: 'budget' })
  })

  const slow: FakeMachine = {
    runMs: ({ maxBatchSize }) => 300 * maxBatchSize,
    byDefault: { ...byDefault, maxBatchSize: 1 },
    loadMs: 3000,
  }

  it('that is hardly enough for one measurement is spent on the default, which is the result, with a word about it', async () => {
    const ground = new FakeGround(slow)
    const { best, rows, isConfirmed, notes, end } = await tune(
      { ...settings, budgetMs: 9000 },
      {},
      untilEnd(),
      ground,
    )
    expect(best).toMatchObject({ isDefault: true, rounds: 1, isKept: true })
    expect(rows).toEqual([best])
    expect(isConfirmed).toBe(false)
    expect(notes.at(-1)).toMatch(/^the time was too short to compare other configurations with the default/)
    expect(end).toBe('budget')
    expect(ground.clock.nowMs()).toBeLessThanOrEqual(9000)
  })

  // As of a small model, whose calls in another layout cost more than they bring.
  const fast = { ...byDefault, threads: 2 }
  const runMs = ({ threads, instances, maxBatchSize }: Configuration) =>
    (threads === 2 && instances === 1 ? 0.2 : 8) + 0.01 * maxBatchSize
  it.each(
    full ? [4000, 5000, 6000, 7000, 8000, 10_000, 12_000, 15_000, 20_000, 60_000] : [4000, 10_000, 20_000],
  )(
    'of %i ms brings no configuration that is worse than the default, which is the best',
    async (budgetMs) => {
      onTestFinished(withoutSaving())
      for (let seed = 1; seed <= repetitions(10, 2); seed++) {
        for (const more of [{}, { p99Ms: 100 }, { concurrency: 16 }]) {
          rmSync(statePath, { force: true })
          const ground = new FakeGround(
            { runMs, byDefault: fast, loadMs: 900 },
            { scatter: 0.1, disturbed: 0.2, drift: 0.1, seed },
          )
          const { best, rows } = await tune(
            { ...settings, options: { sessionOptions: { intraOpNumThreads: 2 } }, ...more, budgetMs },
            {},
            untilEnd(),
            ground,
          )
          const its = rows.find(({ isDefault, measured }) => isDefault && measured !== null)!
          const { configuration, load } = best!.candidate
          expect(ground.truth(configuration, load).rowsPerSecond).toBeGreaterThan(
            0.97 * ground.truth(fast, its.candidate.load).rowsPerSecond,
          )
        }
      }
    },
  )

  it('is spent on the default first, whatever it is', async () => {
    onTestFinished(withoutSaving())
    for (const budgetMs of [3000, 8000, 60_000]) {
      rmSync(statePath, { force: true })
      const ground = new FakeGround(machine(1))
      await tune(
        { ...settings, options: { sessionOptions: { intraOpNumThreads: 3 } }, budgetMs },
        {},
        untilEnd(),
        ground,
      )
      const first = ground.tasks.findIndex(({ type }) => type === 'measure')
      expect(ground.tasks[first - 1]).toMatchObject({
        config: optionsFor({ ...byDefault, threads: 3 }, {}, 'cpu'),
      })
    }
  })

  it('that is enough for loading only leaves no state, and tells a budget that is enough for more', async () => {
    const { best, reason } = await tune({ ...settings, budgetMs: 5000 }, {}, untilEnd(), new FakeGround(slow))
    expect({ best, reason }).toEqual({
      best: null,
      reason: expect.stringMatching(
        /^the time was too short to measure anything: give a --budget of \d+ seconds or more$/,
      ),
    })
    expect(existsSync(statePath)).toBe(false)
    const budgetMs = 1000 * Number(/\d+/.exec(reason!)![0])
    const ground = new FakeGround(slow)
    expect((await tune({ ...settings, budgetMs }, {}, untilEnd(), ground)).best).not.toBeNull()
    expect(ground.clock.nowMs()).toBeLessThanOrEqual(budgetMs)
  })

  it('that is less than loading takes is told as that', async () => {
    const { best, reason, seconds } = await tune(
      { ...settings, budgetMs: 2000, startedAtMs: -500 },
      {},
      untilEnd(),
      new FakeGround(slow),
    )
    expect({ best, reason, seconds }).toEqual({
      best: null,
      reason: 'the time was too short to load the model: give a --budget of 14 seconds or more',
      seconds: 2,
    })
    expect(existsSync(statePath)).toBe(false)
  })

  it('that a measurement does not come to its end in says nothing of it: the next call measures it again', async () => {
    const slower: FakeMachine = { ...slow, runMs: () => 4000 }
    const { best, reason } = await tune(
      { ...settings, budgetMs: 15_000 },
      {},
      untilEnd(),
      new FakeGround(slower),
    )
    expect({ best, reason }).toEqual({
      best: null,
      reason: 'the time was too short to measure anything: give a --budget of 30 seconds or more',
    })
    expect(existsSync(statePath)).toBe(false)
    const again = await tune({ ...settings, budgetMs: 600_000 }, {}, untilEnd(), new FakeGround(slower))
    expect(again.best).not.toBeNull()
    expect(again.rows.every(({ failure }) => failure === null)).toBe(true)
  })
})

describe('what stands in the way', () => {
  it('of all requests is told', async () => {
    const { best, reason, notes } = await tune(
      settings,
      {},
      untilEnd(),
      new FakeGround({ ...machine(1), refusal: '3 requests failed: no such index' }),
    )
    expect({ best, reason }).toEqual({
      best: null,
      reason: 'no configuration served its requests: 3 requests failed: no such index',
    })
    expect(notes[0]).toMatch(/^\d x \d threads with batches of 1 failed: 3 requests failed: no such index/)
  })

  it('of a state that cannot be written any more is told once, and the result is there', async () => {
    const gone = join(folder, 'gone')
    mkdirSync(gone)
    const listener = { onMeasured: () => rmSync(gone, { recursive: true, force: true }) }
    const { best, notes } = await tune(
      { ...settings, statePath: join(gone, 'state.json') },
      listener,
      untilEnd(),
      new FakeGround(machine(1)),
    )
    expect(best).not.toBeNull()
    expect(notes.filter((note) => note.includes('cannot be kept'))).toHaveLength(1)
  })

  it('at its place, as a file of somebody else, is left as it is', async () => {
    for (const fresh of [true, false]) {
      writeFileSync(statePath, '{"name":"my-package"}')
      await expect(
        tune({ ...settings, fresh }, {}, untilEnd(), new FakeGround(machine(1))),
      ).rejects.toMatchObject({ code: 'ERR_INVALID_ARG' })
      expect(readFileSync(statePath, 'utf8')).toBe('{"name":"my-package"}')
    }
  })

  it('before it has begun, as the user wants no more, is no error', async () => {
    const { end, best } = await tune(settings, {}, AbortSignal.abort(), new FakeGround(machine(1)))
    expect({ end, best }).toEqual({ end: 'interrupted', best: null })
  })
})

describe('a provider', () => {
  it('that is named has the default as well', async () => {
    const ground = new FakeGround(machine(1))
    const { kind } = await tune({ ...settings, kind: 'openvino' }, {}, untilEnd(), ground)
    expect(kind).toBe('openvino')
    const loads = ground.tasks.flatMap((task) =>
      task.type === 'load' ? [task.config.instanceGroup?.[0]?.kind] : [],
    )
    expect(new Set(loads)).toEqual(new Set(['openvino']))
  })
})

describe('what was measured', () => {
  async function interrupted(after: number, noise: Noise = { ...noisy, seed: 1 }): Promise<FakeGround> {
    const ground = new FakeGround(machine(1), noise)
    const controller = new AbortController()
    const { end } = await tune(settings, { onMeasured: () => { if (showsAll(ground) >= after) controller.abort() } }, controller.signal, ground) // prettier-ignore
    expect(end).toBe('interrupted')
    expect(ground.living).toBe(0)
    return ground
  }

  it.each([5, 20, 60])(
    'is kept when it is interrupted after %i measurements, and the next call goes on',
    async (after) => {
      const first = showsAll(await interrupted(after, quiet)) // with noise it is chance how long it takes
      const whole = new FakeGround(machine(1))
      await tune({ ...settings, statePath: join(folder, 'other.json'), fresh: true }, {}, untilEnd(), whole)
      const ground = new FakeGround(machine(1))
      const { best, end } = await tune(settings, {}, untilEnd(), ground)
      expect(end).toBe('decided')
      expect(best).not.toBeNull()
      expect(showsAll(ground) + first).toBe(showsAll(whole))
    },
  )

  it('is enough for a call that asks the same again', async () => {
    const before = await tune(settings, {}, untilEnd(), new FakeGround(machine(1)))
    const ground = new FakeGround(machine(1))
    const again = await tune(settings, {}, untilEnd(), ground)
    expect(ground.tasks).toEqual([])
    expect(again.rows).toEqual(before.rows)
  })

  it('of batches serves another goal', async () => {
    await tune(settings, {}, untilEnd(), new FakeGround(machine(1)))
    const ground = new FakeGround(machine(1))
    await tune({ ...settings, concurrency: 8 }, {}, untilEnd(), ground)
    const [first] = ground.tasks
    expect(first).toMatchObject({ type: 'load', name: 'model' }) // of a contest
    expect(
      ground.tasks.filter((task) => task.type === 'measure').every((task) => task.load.concurrency === 8),
    ).toBe(true)
  })

  let kept: string | null = null
  it.each([
    [
      'another model',
      (its: TuneSettings) => (writeFileSync(path, 'another model'), its),
      /begins anew: another model than/,
    ],
    [
      'other options of the model',
      (its: TuneSettings) => ({ ...its, options: { priority: 1 } as never }),
      /another set of model options/,
    ],
    [
      'other requests',
      (its: TuneSettings) => ({
        ...its,
        measuring: { ...its.measuring, requests: { rows: 2, shapes: [], inputData: ['zero'] } },
      }),
      /another kind of request/,
    ],
    [
      'requests of another content',
      (its: TuneSettings) => (writeFileSync(dataPath, '{"data":[{"x":[2]}]}'), its),
      /another kind of request/,
    ],
    [
      'a state that was cut off',
      (its: TuneSettings) => (writeFileSync(statePath, readFileSync(statePath, 'utf8').slice(0, 100)), its),
      /was cut off/,
    ],
    ['an empty one', (its: TuneSettings) => (writeFileSync(statePath, ''), its), /was cut off/],
    ['another provider', (its: TuneSettings) => ({ ...its, kind: 'cpu' }), /another provider than/],
  ])('is forgotten for %s', async (_, change, note) => {
    writeFileSync(dataPath, '{"data":[{"x":[1]}]}')
    const its = {
      ...settings,
      measuring: { ...settings.measuring, requests: { rows: 1, shapes: [], inputData: [dataPath] } },
    }
    if (kept === null) {
      await tune(its, {}, untilEnd(), new FakeGround(machine(1)))
      kept = readFileSync(statePath, 'utf8')
    } else writeFileSync(statePath, kept)
    const ground = new FakeGround(machine(1))
    const { notes } = await tune(change(its), {}, untilEnd(), ground)
    expect(notes[0]).toMatch(note)
    expect(showsAll(ground)).toBeGreaterThan(20)
  })
})
