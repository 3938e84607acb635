import { describe, expect, it } from 'vitest'
import type { Feeds, Model } from '../../src/index.ts'
import { rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { load, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'

const engine = sharedEngine()
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
