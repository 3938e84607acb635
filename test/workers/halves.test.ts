import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { noOptions } from '../../src/options/infer-options.ts'
import { Tensor, type ModelOptions } from '../../src/index.ts'
import { InferRequest } from '../../src/request/infer-request.ts'
import { modelsCompiled } from '../../src/engine/engine-resources.ts'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import { layOut, viewLayout } from '../../src/run/layout.ts'
import type { InstanceUse, PreparedBatch } from '../../src/run/model-instance.ts'
import { WorkerSession } from '../../src/run/worker-session.ts'
import type { OpenOptions } from '../../src/options/session-options.ts'
import { InlineBudget, RunPlace, ThreadChoice } from '../../src/run/thread-time.ts'
import type { ModelMetadata, TensorMetadata } from '../../src/tensor/metadata.ts'
import { FakeClock } from '../fake-clock.ts'
import * as networks from '../models/networks.ts'
import * as small from '../models/small.ts'
import { ownFolder } from '../compiled-models/cached.ts'
import { load, ownEngine } from '../support/open.ts'
import { noise } from '../support/samples.ts'
import { instanceOf, queued } from './queued-model.ts'

const nothing = (): void => {}

type Way = 'here' | 'in halves' | 'elsewhere'

/** A model under constant load, in batches of 32 rows. `rate` says how many rows a millisecond are done, by the way that batches are run. */
function loaded(
  rate: Record<Way, number>,
  of: { isPossible: boolean; isAll: boolean; rowMs?: number } = { isPossible: true, isAll: true },
) {
  const time = { now: 1000 }
  const clock = { nowMs: () => time.now, setTimer: () => 0, clearTimer: nothing }
  const own = new InlineBudget(clock, { maxUs: 200, loopShare: 1 })
  const source = { mayBePlaced: true, use: { rows: 0 } as InstanceUse, runPlace: new RunPlace() }
  const run = (ms: number, busyShare = 0.9): Way[] => {
    const ways: Way[] = []
    for (const endMs = time.now + ms; time.now < endMs;) {
      const inHalves = source.runPlace.choosesHalves(of.isPossible, of.isAll, of.rowMs ?? 0.004)
      const way = inHalves ? 'in halves' : (source.runPlace.present ?? 'here')
      ways.push(way)
      time.now += 32 / rate[way]
      source.use.rows += 32
      own.ran(source, 0.1, (32 / rate[way]) * busyShare)
    }
    return ways
  }
  return { of, run }
}

const only = (ways: Way[]): Way[] => [...new Set(ways)]

describe('a loaded model', () => {
  it.each<[string, Record<Way, number>, Way]>([
    ['in halves, where that gives more', { here: 300, 'in halves': 500, elsewhere: 900 }, 'in halves'],
    ['as a whole, where halves gain little', { here: 300, 'in halves': 385, elsewhere: 900 }, 'here'],
    ['as a whole, where the worker comes late', { here: 300, 'in halves': 150, elsewhere: 900 }, 'here'],
  ])('runs batches %s, and never on the worker', (_, rate, expected) => {
    const { run } = loaded(rate)
    expect(run(2400)).not.toContain('elsewhere')
    expect(only(run(300))).toEqual([expected])
  })

  it.each([
    ['batches cannot be halved', { isPossible: false, isAll: true }],
    ['more waits than fits a short run', { isPossible: true, isAll: false }],
    ['a row takes less than three microseconds', { isPossible: true, isAll: true, rowMs: 0.0029 }],
  ])('has the worker run all batches where %s', (_, of) => {
    const { run } = loaded({ here: 300, 'in halves': 900, elsewhere: 500 }, of)
    expect(run(2400)).not.toContain('in halves')
    expect(only(run(300))).toEqual(['elsewhere'])
  })

  it('knows that rows take half as long in halves', () => {
    const of = { isPossible: true, isAll: true, rowMs: 0.0031 }
    const { run } = loaded({ here: 300, 'in halves': 500, elsewhere: 400 }, of)
    run(2400)
    of.rowMs = 0.00155
    run(9000)
    expect(only(run(300))).toEqual(['in halves'])
  })

  it('looks at halves when its load has become smaller, and at the worker when it has grown', () => {
    const { of, run } = loaded(
      { here: 300, 'in halves': 500, elsewhere: 400 },
      { isPossible: true, isAll: false },
    )
    run(2400)
    expect(only(run(300))).toEqual(['elsewhere'])
    of.isAll = true
    run(9000)
    expect(only(run(300))).toEqual(['in halves'])
    of.isAll = false
    run(9000)
    expect(only(run(300))).toEqual(['elsewhere'])
  })

  it('runs nothing in halves while there is little load, or what can be halved has given way to other batches', () => {
    const { of, run } = loaded({ here: 300, 'in halves': 500, elsewhere: 200 })
    run(2400)
    of.isPossible = false
    expect(run(10)).not.toContain('in halves')
    of.isPossible = true
    expect(run(10)).toContain('in halves')
    run(20, 0.1)
    expect(only(run(20, 0.1))).toEqual(['here'])
  })
})

/** An instance whose batches are run here. Of 32 rows they take 0.1 ms. */
function served(session: object, type: 'float32' | 'string' = 'float32') {
  const { scheduler } = queued({ type })
  const instance = instanceOf(scheduler, session)
  const choice = vi.spyOn(instance.runPlace, 'choosesHalves').mockReturnValue(true)
  const level = scheduler.levels.of(undefined)
  /** The next batch, of what was submitted now: so many rows for each request. */
  const next = (rows: readonly number[], mostMs = 10, each: (request: InferRequest) => unknown = nothing) => {
    for (const count of rows) {
      const feeds = {
        rows: count,
        bucketKey: '',
        whole: false,
        data: [type === 'string' ? Array<string>(4 * count).fill('') : new Float32Array(4 * count)],
        dims: null,
      }
      const request = new InferRequest(feeds, level, noOptions, nothing, nothing)
      scheduler.submit(request, noOptions)
      each(request)
    }
    instance.chooseRows(mostMs, true)
    return instance.nextBatch(true, 0) as PreparedBatch
  }
  return { next, choice }
}

const ofOneRow = (count: number): number[] => Array<number>(count).fill(1)

describe('a batch', () => {
  it.each([
    ['may be halved: 16 rows of as many requests', ofOneRow(16), true],
    ['is too small: 15 rows', ofOneRow(15), false],
    ['cannot be halved: one request has two rows, which stay together', [...ofOneRow(14), 2], false],
  ])('%s', (_, rows, expected) => {
    const { next, choice } = served({ halvedOn: 'first' })
    next(rows)
    expect(choice).toHaveBeenCalledExactlyOnceWith(expected, true, expect.any(Number))
  })

  it('cannot be halved where some of it comes by message', () => {
    const { next, choice } = served({ halvedOn: 'first' }, 'string')
    next(ofOneRow(16))
    expect(choice).toHaveBeenCalledExactlyOnceWith(false, true, expect.any(Number))
  })

  it('cannot be halved where it is of sequences, whose rows have places that mean something', () => {
    const { next, choice } = served({ halvedOn: 'first' })
    next(ofOneRow(16), 10, (request) => (request.turn = { slot: -1 } as never))
    expect(choice).toHaveBeenCalledExactlyOnceWith(false, true, expect.any(Number))
  })

  it('is all there is if everything that waits fits one run of the allowed length', () => {
    for (const [mostMs, isAll] of [
      [0.2, true],
      [0.19, false],
    ] as const) {
      const { next, choice } = served({ halvedOn: 'first' })
      next(ofOneRow(64), mostMs)
      expect(choice.mock.lastCall![1]).toBe(isAll)
    }
  })

  it('runs in halves on a session of one thread: the only one, or the one for short runs', () => {
    const one = served({ halvedOn: 'first' }).next(ofOneRow(16))
    expect([one.inHalves, one.onSecond]).toEqual([true, false])
    const threadChoice = new ThreadChoice('short runs', () => true)
    const chosen = vi.spyOn(threadChoice, 'choose')
    const two = served({ threadChoice, halvedOn: 'second' }).next(ofOneRow(16))
    expect([two.inHalves, two.onSecond]).toEqual([true, true])
    expect(chosen).not.toHaveBeenCalled() // what halves take says nothing of whole runs
    const { next, choice } = served({
      threadChoice: new ThreadChoice('lone requests', () => true),
      halvedOn: null,
    })
    expect(next(ofOneRow(16)).inHalves).toBe(false)
    expect(choice).not.toHaveBeenCalled()
  })
})

describe('a session', () => {
  const provided = (names: readonly string[]) => ({ executionProviders: names })
  it.each([
    ['of one thread, for its batches', { intraOpNumThreads: 1 }, 'first'],
    ['of one thread, on the provider of the CPU', { intraOpNumThreads: 1, ...provided(['cpu']) }, 'first'],
    ['of more threads: not', { intraOpNumThreads: 2 }, null],
    ['on a thread that gives way to others: not', { intraOpNumThreads: 1 }, null, 'gives way'],
    [
      'of another provider, which may allow one run at a time: not',
      { intraOpNumThreads: 1, ...provided(['xnnpack', 'cpu']) },
      null,
    ],
  ])('may be run by two threads at once if it is %s', async (_, options, expected, of = '') => {
    const executor = {
      runsHalves: of !== 'gives way',
      open: async () => ({ inputs: [], outputs: [], carrier: {} }),
    }
    const worker = {
      attach: nothing,
      ask: (_owner: null, _thread: null, work: (on: object) => unknown) => work(executor),
    }
    const source = {
      model: 'm',
      options: options as OpenOptions,
      memory: { limitBytes: Infinity },
      maxSampleMs: 0,
    }
    const session = new WorkerSession(1, worker as never, source, new FakeClock(1000))
    await session.open()
    expect(session.halvedOn).toBe(expected)
  })
})

describe('a layout', () => {
  const laidOut = (inputs: Partial<TensorMetadata>[], outputs: Partial<TensorMetadata>[], of = {}) => {
    const complete = (values: Partial<TensorMetadata>[], prefix: string) =>
      values.map(
        (each, at) => ({ name: `${prefix}${at}`, type: 'float32', shape: [], ...each }) as TensorMetadata,
      )
    const metadata = {
      maxBatchSize: 8,
      inputs: complete(inputs, 'x'),
      outputs: complete(outputs, 'y'),
    } as unknown as ModelMetadata
    const layout = layOut(metadata, { rows: 2, given: inputs.map(() => true), ...of })
    return viewLayout(metadata, layout, new ArrayBuffer(4096), 0, null, true)
  }
  const rows = { shape: ['N', 3] }

  it.each([
    ['lie by row', [rows, { shape: ['N'] }], [rows], {}, true],
    [
      'do not where an input is shared by all rows',
      [rows, { shape: [2, 3], batchAxis: null }],
      [rows],
      {},
      false,
    ],
    ['do not where rows are another dimension', [{ shape: [2, 'N'], batchAxis: 1 }], [rows], {}, false],
    [
      'do not where rows are another dimension, behind one of 1',
      [{ shape: [1, 'N'], batchAxis: 1 }],
      [rows],
      {},
      false,
    ],
    ['do not where elements share bytes', [{ ...rows, type: 'int4' }], [rows], {}, false],
    ['do not where rows have dims of their own', [{ ...rows, ragged: true }], [rows], { room: [2] }, false],
    ['do not where an input comes by message', [{ ...rows, type: 'string' }], [rows], {}, false],
    ['do where an output is not wanted', [rows], [rows, { shape: ['M'] }], { outputMask: 1 }, true],
    ['do not where only the run knows the size of an output', [rows], [{ shape: ['N', 'K'] }], {}, false],
  ] as const)('says that rows %s', (_, inputs, outputs, of, expected) => {
    expect(laidOut(inputs as never, outputs as never, of).isByRow).toBe(expected)
  })
})

const dataOf = (answer: object, output: string) =>
  (answer as Record<string, Tensor>)[output]!.data as Float32Array

describe.skipIf(openNativeOrt().version === undefined)('with the native executor', () => {
  /** A model of an engine that runs in halves whatever can be, opened from its compiled form. */
  async function halving(path: string, options: ModelOptions) {
    const chosen = vi
      .spyOn(RunPlace.prototype, 'choosesHalves')
      .mockImplementation((isPossible) => isPossible)
    onTestFinished(() => chosen.mockRestore())
    const engine = (dir: string) =>
      ownEngine({ cpuWorkers: 1, executor: 'native', verify: 'child', cache: { dir } })
    const dir = ownFolder()
    const compiling = engine(dir)
    await load(compiling, path, options)
    await modelsCompiled(compiling)
    const halved = () => chosen.mock.results.filter(({ value: isHalved }) => isHalved === true).length
    return { model: await load(engine(dir), path, options), halved }
  }

  it.each([
    ['of one thread', { sessionOptions: { intraOpNumThreads: 1 } }],
    ['with a second session for short runs', {}],
  ])('halves give the answers of whole runs, for a model %s', async (_, config) => {
    const { model, halved } = await halving(networks.mlp(), config)
    const feeds = Array.from({ length: 150 }, () => ({
      input: new Tensor('float32', noise([1, 64]).data as Float32Array, [1, 64]),
    }))
    const alone: Float32Array[] = []
    for (const feed of feeds) alone.push(dataOf(await model.infer(feed), 'output'))
    expect(halved()).toBe(0)
    const inlineBefore = model.stats().inlineCount
    for (const count of [16, 17, 32, 64, 150]) {
      for (let round = 0; round < 20; round++) {
        const answers = await Promise.all(feeds.slice(0, count).map((feed) => model.infer(feed)))
        for (const [at, answer] of answers.entries())
          for (const [place, each] of dataOf(answer, 'output').entries())
            expect(Math.abs(each - alone[at]![place]!)).toBeLessThan(1e-5)
      }
    }
    expect(halved()).toBeGreaterThan(50)
    expect(model.stats().inlineCount - inlineBefore).toBeGreaterThan(50)
  })

  it('a row that makes a half fail fails alone, with the reason that a whole run has', async () => {
    const { model, halved } = await halving(small.gatherRow(), { sessionOptions: { intraOpNumThreads: 1 } })
    const ask = (index: number) =>
      model.infer({ index: new Tensor('int64', BigInt64Array.of(BigInt(index)), [1, 1]) })
    for (let round = 0; round < 20; round++) await Promise.all(Array.from({ length: 24 }, () => ask(1)))
    const before = halved()
    for (const bad of [0, 11, 12, 23]) {
      const asked = Array.from({ length: 24 }, (_, at) => ask(at === bad ? 99 : at % 8))
      for (const [at, settled] of (await Promise.allSettled(asked)).entries()) {
        if (at === bad)
          expect(String((settled as PromiseRejectedResult).reason)).toContain('out of data bounds')
        else expect(dataOf((settled as PromiseFulfilledResult<object>).value, 'y')[0]).toBe(4 * (at % 8))
      }
    }
    expect(halved()).toBeGreaterThan(before)
  })
})
