import { describe, expect, it, vi } from 'vitest'
import { type Feeds, type InferManyOptions, type Model, Tensor } from '../../src/index.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { largestBatch } from '../support/against-plain.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { settledCount } from './outcome.ts'

const engine = sharedEngine()
const identity = (config = {}) => load(engine, small.identity('float32'), config)
const item = (value: number): Feeds => ({ x: Float32Array.of(value, value, value, value) })

function* count(items: number) {
  for (let at = 0; at < items; at++) yield item(at)
}

async function* countSlowly(items: number) {
  for (const feeds of count(items)) {
    await new Promise(setImmediate)
    yield feeds
  }
}

type Source = Parameters<Model['inferMany']>[0]

/** Everything that a stream gives, as [index, first element of y or error]. */
async function collect(model: Model, source: Source, options?: InferManyOptions) {
  const results: [number, unknown][] = []
  for await (const { index, outputs, error } of model.inferMany(source, options)) {
    results.push([index, outputs === undefined ? error : outputs.y!.data[0]])
  }
  return results
}

const inOrder = (items: number) => Array.from({ length: items }, (_, at) => [at, at])
const sources: [what: string, make: (items: number) => Source][] = [
  ['an array', (items) => [...count(items)]],
  ['a set', (items) => new Set(count(items))],
  ['a generator', count],
  ['an async generator', countSlowly],
]

describe('inferMany', () => {
  it.each(sources)('answers all items of %s, in their order', async (_, make) => {
    expect(await collect(await identity(), make(50))).toEqual(inOrder(50))
  })

  it.each(sources)('answers each item of %s once, in any order', async (_, make) => {
    const results = await collect(await identity(), make(50), { ordered: false })
    expect(results.sort(([a], [b]) => a - b)).toEqual(inOrder(50))
  })

  it('answers nothing for no items', async () => {
    expect(await collect(await identity(), [])).toEqual([])
    expect(await collect(await identity(), countSlowly(0))).toEqual([])
  })

  it('fills batches, whether items come at once or one by one', async () => {
    // Inline runs may have more rows.
    const model = await load(ownEngine({ inline: false }), small.identity('float32'))
    expect(await collect(model, count(1000))).toEqual(inOrder(1000))
    expect([largestBatch(model), model.stats().inferenceCount]).toEqual([32, 1000])
    expect(await collect(model, countSlowly(200))).toEqual(inOrder(200))
  })

  it('takes no more than maxInFlight items ahead of what was read', async () => {
    const limits = [
      [{ maxInFlight: 3 }, 3],
      [{ maxInFlight: 1 }, 1],
      [{ maxInFlight: 5, ordered: false }, 5],
      [{}, 2 * 4 * 2],
    ] as const
    for (const [options, most] of limits) {
      const model = await identity({ maxBatchSize: 4, instanceGroup: [{ kind: 'cpu', count: 2 }] })
      let [given, read, ahead] = [0, 0, 0]
      function* source() {
        for (const feeds of count(60)) {
          ahead = Math.max(ahead, ++given - read)
          yield feeds
        }
      }
      for await (const { error } of model.inferMany(source(), options)) {
        expect(error).toBeUndefined()
        read++
      }
      expect([read, ahead]).toEqual([60, most])
    }
  })

  it('gives results while the source has no next item yet', async () => {
    const model = await identity()
    let answered = 0
    async function* source() {
      for (let at = 0; at < 3; at++) {
        await until(() => answered === at) // each item depends on the answer to the one before
        yield item(at)
      }
    }
    for await (const { index, outputs } of model.inferMany(source())) {
      expect(outputs!.y!.data[0]).toBe(index)
      answered++
    }
    expect(answered).toBe(3)
  })

  it.each([
    ['in the order of their items', true, [0, 1, 2, 3]],
    ['as they are done where it need not be ordered', false, [1, 2, 0, 3]],
  ] as const)('gives results %s', async (_, ordered, order) => {
    const lengths = [3, 5, 5, 3] // the first waits for the last, to fill a batch of two
    const model = await load(engine, small.identityVariable('float32'), {
      maxBatchSize: 2,
      dynamicBatching: { maxQueueDelayMs: 600_000 },
    })
    async function* source() {
      for (const length of lengths) {
        if (length === 3)
          await until(() => model.stats().inferenceCount === 2 || model.stats().pendingRequestCount === 0)
        yield { x: new Tensor('float32', new Float32Array(length), [1, length]) }
      }
    }
    const indices: number[] = []
    for await (const { index } of model.inferMany(source(), { ordered })) indices.push(index)
    expect(indices).toEqual(order)
  })

  it('gives an error for the item that is wrong, and for it alone', async () => {
    const model = await load(engine, small.gatherRow(), { sessionOptions: { logSeverityLevel: 4 } })
    const lookUp = (index: number) => ({ index: BigInt64Array.of(BigInt(index)) })
    const items = [lookUp(3), lookUp(99), { index: new Float32Array(1) }, null as unknown as Feeds, lookUp(5)]
    const [first, failed, wrong, missing, last] = await collect(model, items)
    expect([first, last]).toEqual([
      [0, 12],
      [4, 20],
    ])
    expect(failed![1]).toMatchObject({ code: 'ERR_EXECUTION' })
    expect([wrong![1], missing![1]]).toMatchObject([{ code: 'ERR_INVALID_ARG' }, { code: 'ERR_INVALID_ARG' }])
  })

  it('waits where the queue is full', async () => {
    const model = await identity({
      maxBatchSize: 2,
      dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 1 } },
    })
    expect(await collect(model, count(100), { maxInFlight: 20 })).toEqual(inOrder(100))
    expect(model.stats().rejections.queueFull).toBeGreaterThan(0)
  })

  it('passes the options on to each item', async () => {
    const model = await load(engine, small.addSub('float32'))
    const ones = { a: new Float32Array(16).fill(1), b: new Float32Array(16).fill(1) }
    for await (const { outputs } of model.inferMany([ones, ones], { outputs: ['sum'] }))
      expect(Object.keys(outputs!)).toEqual(['sum'])
    const limited = await identity({ dynamicBatching: { holdUntilQueued: 100 } })
    expect(await collect(limited, count(3), { timeoutMs: 5 })).toMatchObject(
      [0, 1, 2].map((at) => [at, { code: 'ERR_TIMEOUT' }]),
    )
  })
})

it('an endless stream ends with an error when its model is closed, after the results of what it took', async () => {
  const own = ownEngine()
  const model = await load(own, small.identity('float32'), { dynamicBatching: { holdUntilQueued: 100 } })
  const results: [number, unknown][] = []
  const thrown = rejectionOf(async () => {
    for await (const { index, error } of model.inferMany(count(Infinity), { maxInFlight: 3 }))
      results.push([index, error])
  })
  await until(() => model.stats().pendingRequestCount === 3)
  await own.destroy()
  expect(await thrown).toMatchObject({ code: 'ERR_CLOSED' })
  expect(results).toMatchObject([0, 1, 2].map((at) => [at, { code: 'ERR_CLOSED' }]))
  expect(settledCount(model)).toBe(3)
})

it('a stream of a model that was never ready is refused when it begins', async () => {
  const own = ownEngine()
  const loading = load(own, small.identity('float32'))
  const [model] = own.models()
  const read = vi.fn(() => count(1)[Symbol.iterator]())
  const results = model!.inferMany({ [Symbol.iterator]: read })
  expect(await rejectionOf(() => results.next())).toMatchObject({ code: 'ERR_MODEL_NOT_READY' })
  expect(read).not.toHaveBeenCalled()
  await loading
})

const wrong: [what: string, source: unknown, options: unknown, argument: string, expected?: RegExp][] = [
  ['no source', undefined, {}, 'source'],
  ['a single item', item(1), {}, 'source'],
  ['a text', 'abc', {}, 'source'],
  ['maxInFlight of 0', [], { maxInFlight: 0 }, 'options.maxInFlight'],
  ['a fraction of an item', [], { maxInFlight: 1.5 }, 'options.maxInFlight'],
  ['maxInFlight of Infinity', [], { maxInFlight: Infinity }, 'options.maxInFlight'],
  ['ordered by a word', [], { ordered: 'yes' }, 'options.ordered'],
  [
    'a misspelt option',
    [],
    { maxInflight: 3 },
    'options.maxInflight',
    /^one of ordered, maxInFlight, signal, timeoutMs, deadlineMs, maxRunMs, priority, outputs, splitOversized$/,
  ],
  ['a wrong timeout', [], { timeoutMs: -1 }, 'options.timeoutMs'],
  ['one report for many', [], { report: true }, 'options.report'],
  ['one id for many', [], { requestId: 'r' }, 'options.requestId'],
  ['options of null', [], null, 'options'],
]

it.each(wrong)('a stream is refused: %s', async (_, source, options, argument, expected = /./) => {
  const model = await identity()
  expectRefusal(
    await rejectionOf(() => model.inferMany(source as Feeds[], options as InferManyOptions).next()),
    { argument, expected },
  )
})

describe('a source of inferMany()', () => {
  const row = (value: number): Feeds => ({ x: Float32Array.of(value, 2, 3, 4) })
  const results = async (source: Source | (() => Source), options?: InferManyOptions) => {
    const model = await load(engine, small.identity('float32'))
    const given: unknown[] = []
    const items = typeof source === 'function' ? source() : source
    for await (const { outputs, error } of model.inferMany(items, options))
      given.push(error ?? outputs.x?.data[0] ?? outputs['y']!.data[0])
    return given
  }

  it('may give promises, each of whose rejections is the error of its item', async () => {
    const broken = new Error('no image')
    function* decoded() {
      for (const value of [1, 2, 3]) yield value === 2 ? Promise.reject(broken) : Promise.resolve(row(value))
    }
    expect(await results(decoded())).toEqual([1, broken, 3])
    expect(await results([1, 2].map(async (value) => row(value)))).toEqual([1, 2])
  })

  it('may give promises that were made ahead, and reject before they are read', async () => {
    const broken = new Error('no image')
    const made = () => [1, 2, 3, 4].map(async (value) => (value === 3 ? Promise.reject(broken) : row(value)))
    expect(await results(made, { maxInFlight: 1 })).toEqual([1, 2, broken, 4])
  })

  it.each([undefined, '', 0])(
    'may give a promise that rejects with %j, which is the cause of the error of its item',
    async (reason) => {
      const [error] = await results(() => [Promise.reject(reason)])
      expect(error).toMatchObject({
        name: 'Error',
        message: `The item was rejected with ${String(reason)}`,
        cause: reason,
      })
    },
  )

  it('goes on when an item is rejected because another model is closed', async () => {
    const closed = await load(engine, small.identity('float32'))
    await closed.unload()
    const [error, value] = await results(() => [closed.infer(row(1)) as Promise<Feeds>, row(2)])
    expect(error).toMatchObject({ code: 'ERR_CLOSED' })
    expect(value).toBe(2)
  })

  it('is not waited for when its model is closed while an item has not come', async () => {
    const model = await load(engine, small.identity('float32'))
    const never = new Promise<Feeds>(() => {})
    const given: unknown[] = []
    const reading = (async () => {
      for await (const { index, outputs, error } of model.inferMany([never, row(1), row(2)], {
        ordered: false,
        maxInFlight: 2,
      })) {
        given.push([index, error ?? outputs['y']!.data[0]])
        await model.unload()
      }
    })()
    const closed = expect.objectContaining({ code: 'ERR_CLOSED' })
    await expect(reading).rejects.toEqual(closed)
    expect(given.slice(0, 1)).toEqual([[1, 1]])
    expect(given.slice(1)).toEqual(
      expect.arrayContaining([
        [0, closed],
        [2, closed],
      ]),
    )
  })

  it('may give a promise that rejects just after it was withdrawn', async () => {
    const controller = new AbortController()
    function* items() {
      controller.abort('enough')
      yield Promise.reject(new Error('nobody wants to know'))
    }
    await expect(results(items(), { signal: controller.signal })).rejects.toBe('enough')
  })

  it('is not waited for when it is withdrawn while an item has not come', async () => {
    const controller = new AbortController()
    const ends = results([new Promise<Feeds>(() => {})], { signal: controller.signal }).catch(
      (reason: unknown) => reason,
    )
    setTimeout(() => controller.abort('enough'), 20)
    expect(await ends).toBe('enough')
  })

  it.each([undefined, null])(
    'is iterated as for await does it where its asynchronous iterator is %s',
    async (none) => {
      expect(
        await results({
          [Symbol.asyncIterator]: none,
          [Symbol.iterator]: () => [row(5)][Symbol.iterator](),
        } as never),
      ).toEqual([5])
    },
  )

  const broken: [what: string, source: unknown][] = [
    ['no iterator', { [Symbol.iterator]: () => null }],
    ['no method', { [Symbol.iterator]: 5 }],
    ['no next()', { [Symbol.iterator]: () => ({}) }],
    ['no items', { [Symbol.iterator]: () => ({ next: () => 7 }) }],
    ['no asynchronous ones', { [Symbol.asyncIterator]: () => ({ next: async () => undefined }) }],
  ]
  it.each(broken)('that gives %s is refused', async (_, source) => {
    await expect(results(source as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'source',
    })
  })
})

const good: Feeds = { x: new Float32Array(4) }
const bad: Feeds = { x: new Float32Array(3) }
/** A model that runs nothing: whatever is good waits. */
const idle = () => load(engine, small.identity('float32'), { dynamicBatching: { holdUntilQueued: 1000 } })
const waiting = (model: Model) => model.stats().pendingRequestCount

/** Gives so many good items after a bad one, and notes that it was closed. */
function source(items: number, how: 'sync' | 'async') {
  const state = { given: 0, closed: 0 }
  const feeds = () => (state.given++ === 0 ? bad : good)
  const iterator = {
    next: () =>
      state.given <= items
        ? { done: false as const, value: feeds() }
        : { done: true as const, value: undefined },
    return: () => {
      state.closed++
      return { done: true as const, value: undefined }
    },
  }
  const iterable =
    how === 'sync'
      ? { [Symbol.iterator]: () => iterator }
      : {
          [Symbol.asyncIterator]: () => ({
            next: async () => iterator.next(),
            return: async () => iterator.return(),
          }),
        }
  return { state, iterable: iterable as Iterable<Feeds> | AsyncIterable<Feeds> }
}

describe('leaving the loop early', () => {
  it.each(['sync', 'async'] as const)('closes its source (%s) and withdraws what waits', async (how) => {
    const model = await idle()
    const { state, iterable } = source(100, how)
    for await (const { index, error } of model.inferMany(iterable, { maxInFlight: 10 })) {
      expect([index, error]).toMatchObject([0, { code: 'ERR_INVALID_ARG' }])
      await until(() => waiting(model) > 0)
      break
    }
    expect([state.closed, waiting(model)]).toEqual([1, 0])
    expect(state.given).toBeLessThanOrEqual(11)
    expect(model.stats().rejections.cancelled).toBe(model.stats().inferenceStats.fail.count)
  })

  it('by an error does the same', async () => {
    const model = await idle()
    const { state, iterable } = source(100, 'sync')
    const loop = async () => {
      for await (const { index } of model.inferMany(iterable)) throw new Error(`after ${index}`)
    }
    await expect(loop()).rejects.toThrow('after 0')
    expect([state.closed, waiting(model)]).toEqual([1, 0])
  })

  it('does not wait for a source that has no next item', async () => {
    const model = await idle()
    let goOn = () => {}
    let closed = false
    async function* stuck() {
      try {
        yield bad
        await new Promise<void>((resolve) => (goOn = resolve))
        yield good
      } finally {
        closed = true
      }
    }
    for await (const { index } of model.inferMany(stuck())) {
      expect(index).toBe(0)
      break
    }
    expect(closed).toBe(false)
    goOn()
    await until(() => closed)
    expect(waiting(model)).toBe(0) // nor is what it gives then taken
  })

  it('before it began leaves the source alone', async () => {
    const { state, iterable } = source(3, 'sync')
    await (await idle()).inferMany(iterable).return()
    expect(state).toEqual({ given: 0, closed: 0 })
  })

  it('after the last result does not close what has ended', async () => {
    const { state, iterable } = source(0, 'async')
    for await (const { index } of (await idle()).inferMany(iterable)) expect(index).toBe(0)
    expect(state).toEqual({ given: 1, closed: 0 })
  })
})

const broken = new Error('no more')

describe('a source that throws', () => {
  function* sync() {
    yield* [bad, bad, bad]
    throw broken
  }
  async function* later() {
    yield* sync()
  }

  it.each([
    ['at once', sync],
    ['later', later],
  ])('%s: the results of what it gave come first', async (_, make) => {
    const model = await idle()
    for (const ordered of [true, false]) {
      const indices: number[] = []
      const loop = async () => {
        for await (const { index } of model.inferMany(make(), { ordered })) indices.push(index)
      }
      await expect(loop()).rejects.toBe(broken)
      expect(indices).toEqual([0, 1, 2])
    }
  })

  it('when it is opened or closed has its error thrown', async () => {
    const model = await idle()
    const unopened = {
      [Symbol.iterator]: () => {
        throw broken
      },
    }
    await expect(model.inferMany(unopened).next()).rejects.toBe(broken)
    const unclosed = {
      [Symbol.iterator]: () => ({
        next: () => ({ done: false, value: bad }),
        return: () => {
          throw broken
        },
      }),
    }
    const loop = async () => {
      for await (const { index } of model.inferMany(unclosed as Iterable<Feeds>, { maxInFlight: 1 }))
        if (index === 2) break
    }
    await expect(loop()).rejects.toBe(broken)
  })
})

describe('a signal', () => {
  it('withdraws what waits, and its reason is thrown after the results of what was taken', async () => {
    const model = await idle()
    const controller = new AbortController()
    const { state, iterable } = source(Infinity, 'sync')
    const errors: unknown[] = []
    const thrown = rejectionOf(async () => {
      for await (const { error } of model.inferMany(iterable, { signal: controller.signal, maxInFlight: 3 }))
        errors.push(error)
    })
    await until(() => waiting(model) === 3)
    controller.abort('withdrawn')
    expect(await thrown).toBe('withdrawn')
    expect(errors).toMatchObject([{ code: 'ERR_INVALID_ARG' }, 'withdrawn', 'withdrawn', 'withdrawn'])
    expect([state, waiting(model)]).toEqual([{ given: 4, closed: 1 }, 0])
  })

  it('that has fired before leaves the source alone', async () => {
    const { state, iterable } = source(3, 'async')
    const results = (await idle()).inferMany(iterable, { signal: AbortSignal.abort('before') })
    expect(await rejectionOf(() => results.next())).toBe('before')
    expect(state.given).toBe(0)
  })

  it('has its reason thrown, not the error of a source that cannot be closed then', async () => {
    const controller = new AbortController()
    const unclosed = {
      [Symbol.iterator]: () => ({
        next: () => ({ done: false, value: bad }),
        return: () => {
          throw broken
        },
      }),
    }
    const thrown = rejectionOf(async () => {
      for await (const { index } of (await idle()).inferMany(unclosed as Iterable<Feeds>, {
        signal: controller.signal,
        maxInFlight: 1,
      })) {
        if (index === 2) controller.abort('withdrawn')
      }
    })
    expect(await thrown).toBe('withdrawn')
  })

  it('ends a stream whose source has no next item', async () => {
    const controller = new AbortController()
    const stuck = {
      [Symbol.asyncIterator]: () => ({ next: () => new Promise<IteratorResult<Feeds>>(() => {}) }),
    }
    const first = (await idle()).inferMany(stuck, { signal: controller.signal }).next()
    controller.abort('withdrawn')
    expect(await rejectionOf(() => first)).toBe('withdrawn')
  })

  it('ends the wait for a full queue', async () => {
    const model = await load(engine, small.identity('float32'), {
      dynamicBatching: { holdUntilQueued: 100, defaultQueuePolicy: { maxQueueSize: 1 } },
    })
    const controller = new AbortController()
    const errors: unknown[] = []
    const thrown = rejectionOf(async () => {
      const results = model.inferMany([good, good, good], { signal: controller.signal, ordered: false })
      for await (const { error } of results) errors.push(error)
    })
    await until(() => model.stats().rejections.queueFull === 1) // which is not asked again before there is room
    controller.abort('withdrawn')
    expect(await thrown).toBe('withdrawn')
    expect(errors).toEqual(['withdrawn', 'withdrawn', 'withdrawn'])
  })

  it.each([new Error('enough'), 0, null, undefined])(
    'that fires with %s gives each item an error, which is true',
    async (reason) => {
      const model = await idle()
      const controller = new AbortController()
      const errors: (Error | undefined)[] = []
      const thrown = rejectionOf(async () => {
        for await (const { error } of model.inferMany([good, good], { signal: controller.signal }))
          errors.push(error)
      })
      await until(() => waiting(model) === 2)
      controller.abort(reason)
      expect(await thrown).toBe(controller.signal.reason)
      expect(errors).toEqual([expect.any(Error), expect.any(Error)])
      for (const error of errors) expect([error, error!.cause]).toContain(controller.signal.reason)
    },
  )
})
