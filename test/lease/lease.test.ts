import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Lease, Model } from '../../src/index.ts'
import { growing, scaledBlocks } from '../models/batch-axes.ts'
import * as small from '../models/small.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { repetitions } from '../support/full.ts'
import { collectGarbage } from '../support/garbage.ts'
import { runsInPlace } from '../support/native.ts'
import { until } from '../support/until.ts'
import { outcomeOf } from '../scheduling/outcome.ts'

const engine = sharedEngine()
const elements = 2048
const bigRows = (config: object = {}) => load(engine, small.bigRow(elements), { maxBatchSize: 8, ...config })

function filled(model: Model, value: number, rows = 1): Lease {
  const lease = model.lease(rows)
  lease.inputs['x']!.fill(value)
  return lease
}

/** Asserts that an answer is rows of nothing but these values. */
async function expectValues(
  answer: Promise<{ [name: string]: { dims: readonly number[]; data: unknown } }>,
  ...values: number[]
): Promise<void> {
  const { y } = await answer
  expect(y!.dims).toEqual([values.length, elements])
  const data = y!.data as Float32Array
  for (const [row, value] of values.entries())
    expect(data.subarray(row * elements, (row + 1) * elements).find((each) => each !== value)).toBeUndefined()
}

function expectSum(model: Model): void {
  const { taken, held, inferred, released, expired, dropped, closed } = model.stats().leases
  expect(held + inferred + released + expired + dropped + closed).toBe(taken)
}

describe('leased rows', () => {
  it('are zeros at first, and are answered as any rows are', async () => {
    const model = await bigRows()
    await expectValues(filled(model, 7).infer(), 7)
    await expectValues(model.lease().infer(), 0) // whatever another caller has left there
    const lease = model.lease(3)
    const { x } = lease.inputs
    expect(x).toBeInstanceOf(Float32Array)
    expect(x!.length).toBe(3 * elements)
    expect(x!.every((value) => value === 0)).toBe(true)
    x!.fill(1, 0, elements)
    x!.fill(2, elements, 2 * elements)
    await expectValues(lease.infer(), 1, 2, 0)
    expectSum(model)
  })

  it('of many callers share batches, each with its own answer, beside requests of data', async () => {
    const model = await bigRows()
    for (let round = 0; round < 20; round++) {
      const answers = Array.from({ length: 24 }, (_, caller) => {
        const value = 100 * round + caller
        if (caller % 5 === 4)
          return expectValues(model.infer({ x: new Float32Array(elements).fill(value) }), value)
        return expectValues(filled(model, value).infer(), value)
      })
      await Promise.all(answers)
    }
    const { inferenceCount, executionCount, leases } = model.stats()
    expect(inferenceCount).toBe(20 * 24)
    expect(executionCount).toBeLessThan(20 * 24)
    expect(leases.rowsInPlace + leases.rowsCopied).toBe(20 * 20)
    expectSum(model)
  })

  it.runIf(runsInPlace)('run where they were written, a whole batch of them and parts of one', async () => {
    const model = await bigRows({ dynamicBatching: { holdUntilQueued: 8 } })
    await Promise.all(
      Array.from({ length: 8 }, (_, caller) => expectValues(filled(model, caller).infer(), caller)),
    )
    expect(model.stats().leases).toMatchObject({ inferred: 8, rowsInPlace: 8, rowsCopied: 0 })
    expect(model.stats().executionCount).toBe(1)
    await expectValues(filled(model, 9, 2).infer(), 9, 9)
    expect(model.stats().leases).toMatchObject({ rowsInPlace: 10, rowsCopied: 0 })
  })

  it.runIf(runsInPlace)(
    'close the holes that released ones leave with the rows of others, which alone are copied',
    async () => {
      const model = await bigRows({ dynamicBatching: { holdUntilQueued: 8 } })
      const leases = Array.from({ length: 8 }, (_, caller) => filled(model, caller))
      leases[2]!.release()
      leases[5]!.release()
      const others = [20, 50].map((value) =>
        expectValues(model.infer({ x: new Float32Array(elements).fill(value) }), value),
      )
      const answers = leases.flatMap((lease, caller) =>
        lease.held ? [expectValues(lease.infer(), caller)] : [],
      )
      await Promise.all([...answers, ...others])
      expect(model.stats()).toMatchObject({
        executionCount: 1,
        leases: { released: 2, inferred: 6, rowsInPlace: 6, rowsCopied: 0 },
      })
    },
  )

  it('that are held keep no other waiting', async () => {
    const model = await bigRows()
    const held = Array.from({ length: 40 }, (_, caller) => filled(model, -caller)) // more than there are blocks for
    await Promise.all(
      Array.from({ length: 40 }, (_, caller) => expectValues(filled(model, caller).infer(), caller)),
    )
    await Promise.all(held.map((lease, caller) => expectValues(lease.infer(), -caller)))
    expectSum(model)
  })

  it.runIf(runsInPlace)(
    'lie in no more blocks than can be looked after quickly, however many there are',
    async () => {
      const own = ownEngine({ staging: { limitBytes: 2 ** 30 } })
      const model = await own.load('m', { path: small.bigRow(elements), maxBatchSize: 1 })
      const count = repetitions(2000, 700)
      const leases = Array.from({ length: count }, (_, caller) => filled(model, caller))
      const blockBytes = 2 * 4 * elements
      expect(own.stats().staging!.usedBytes).toBeLessThanOrEqual(512 * blockBytes)
      await Promise.all(leases.map((lease, caller) => expectValues(lease.infer(), caller)))
      expect(model.stats().leases).toMatchObject({ inferred: count, held: 0, rowsInPlace: 512 })
    },
  )

  it.runIf(runsInPlace)('lie where they are run in the second burst as in the first', async () => {
    const own = ownEngine({ staging: { limitBytes: 256 * 2 ** 20 } }) // of the process: what others hold of it makes little difference
    const model = await own.load('m', { path: small.bigRow(2 ** 18), maxBatchSize: 1 })
    const burst = async () => {
      const before = model.stats().leases.rowsInPlace
      const answers = await Promise.all(
        Array.from({ length: 80 }, (_, caller) => filled(model, caller).infer()),
      )
      expect(answers.map(({ y }) => y!.data.at(-1))).toEqual(answers.map((_, caller) => caller))
      return model.stats().leases.rowsInPlace - before
    }
    const first = await burst()
    await until(() => own.stats().staging!.usedBytes <= 8 * 2 ** 20) // the blocks went back, the slots are kept
    expect(first).toBeGreaterThan(30)
    expect(await burst()).toBeGreaterThan(first / 2) // beside the slots
  })

  it('show nothing to who keeps an array: it is empty after the end', async () => {
    const model = await bigRows()
    const run = filled(model, 1)
    const released = filled(model, 2)
    const arrays = [run.inputs['x']!, released.inputs['x']!]
    const answer = run.infer()
    released.release()
    expect(arrays.map(({ length }) => length)).toEqual([0, 0])
    arrays[0]![0] = 9
    await expectValues(answer, 1)
  })

  it('whose memory their holder has moved away are not used for others', async () => {
    const model = await bigRows()
    const lease = filled(model, 3)
    const { x } = lease.inputs
    let moved: ArrayBuffer
    try {
      moved = structuredClone(x!.buffer as ArrayBuffer, { transfer: [x!.buffer as ArrayBuffer] })
    } catch {
      moved = (x!.buffer as ArrayBuffer & { transfer?(): ArrayBuffer }).transfer?.() ?? new ArrayBuffer(0)
    }
    const seen = new Float32Array(moved)
    lease.release()
    const before = seen.slice()
    for (let round = 0; round < 10; round++)
      await Promise.all([4, 5, 6].map((value) => expectValues(filled(model, value).infer(), value)))
    expect(seen).toEqual(before)
  })

  it('can be used once', async () => {
    const model = await bigRows()
    const lease = filled(model, 1)
    expect(lease.held).toBe(true)
    await lease.infer()
    expect(lease.held).toBe(false)
    lease.release()
    await expect(lease.infer()).rejects.toMatchObject({
      code: 'ERR_LEASE_ENDED',
      model: model.name,
      received: 'its rows were run',
    })
    expect(() => lease.inputs['x']).toThrow(expect.objectContaining({ code: 'ERR_LEASE_ENDED' }))
    using disposed = model.lease()
    disposed.release()
    await expect(disposed.infer()).rejects.toMatchObject({
      code: 'ERR_LEASE_ENDED',
      received: 'it was released',
    })
  })

  it('are taken back from who holds them for too long, and only from them', async () => {
    const model = await bigRows()
    const late = model.lease(1, { maxHoldMs: 20 })
    const { x } = late.inputs
    const other = filled(model, 5)
    await until(() => model.stats().leases.expired === 1)
    expect(x!.length).toBe(0)
    await expect(late.infer()).rejects.toMatchObject({
      code: 'ERR_LEASE_ENDED',
      received: 'it was held longer than maxHoldMs (20 ms)',
    })
    await expectValues(other.infer(), 5)
    expect(model.stats().leases).toMatchObject({ taken: 2, held: 0, expired: 1, inferred: 1 })
  })

  it('that nobody has any more are used again', async () => {
    const model = await bigRows()
    let array: unknown
    const drop = () => void (array = filled(model, 1).inputs['x'])
    drop()
    await nextTurn()
    await until(() => {
      collectGarbage()
      return model.stats().leases.dropped === 1
    })
    expect((array as Float32Array).length).toBe(0)
    expectSum(model)
  })

  it('end with their model, and go on when it is replaced', async () => {
    const model = await load(engine, small.bigRow(elements), { maxBatchSize: 8 })
    const kept = filled(model, 4)
    await engine.load(model.name, { path: small.bigRow(elements), maxBatchSize: 8 })
    await expectValues(kept.infer(), 4)
    const old = filled(model, 5)
    const array = old.inputs['x']!
    await engine.load(model.name, { path: small.bigRow(elements), maxBatchSize: 8 })
    await engine.unload(model.name)
    expect(array.length).toBe(0)
    expect(await outcomeOf(old.infer())).toBe('ERR_LEASE_ENDED')
    expect(() => model.lease()).toThrow(expect.objectContaining({ code: 'ERR_CLOSED' }))
  })

  it('of memory of their own that their holder has moved away are a typed error, also when their model is replaced', async () => {
    const config = { path: small.identityVariable('float32'), maxBatchSize: 4 }
    const model = await load(engine, config.path, config)
    const leases = [1, 2].map(() => model.lease(1, { dims: { x: [3] } }))
    for (const lease of leases) {
      const { buffer } = lease.inputs['x']!
      structuredClone(buffer, { transfer: [buffer as ArrayBuffer] })
    }
    expect(await outcomeOf(leases[0]!.infer())).toBe('ERR_INVALID_ARG')
    await engine.load(model.name, config)
    expect(await outcomeOf(leases[1]!.infer())).toBe('ERR_INVALID_ARG')
  })

  it('are run by a pipeline that has taken the place of their model, and end with it', async () => {
    const own = ownEngine()
    const config = { path: small.bigRow(elements), maxBatchSize: 8 }
    const model = await own.load('m', config)
    await own.load('step', config)
    const run = filled(model, 3)
    const held = filled(model, 4)
    await own.loadPipeline('m', {
      inputs: ['x'],
      steps: [{ model: 'step', inputs: { x: 'x' }, outputs: { y: 'y' } }],
      outputs: ['y'],
    })
    await expectValues(run.infer(), 3)
    expect(held.held).toBe(true)
    await own.unload('m')
    expect(held.held).toBe(false)
  })

  it('with the binding have memory of their own, and no other is taken for them', async () => {
    const own = ownEngine({ executor: 'binding' })
    const model = await own.load('m', { path: small.bigRow(elements), maxBatchSize: 8 })
    await expectValues(filled(model, 1).infer(), 1)
    const { reservedBytes } = own.stats().staging!
    for (const value of [2, 3, 4, 5, 6]) await expectValues(filled(model, value).infer(), value)
    expect(own.stats().staging!.reservedBytes).toBeLessThanOrEqual(reservedBytes)
  })

  it('give all memory back with their engine, held or not', async () => {
    const own = ownEngine()
    const model = await load(own, small.bigRow(elements), { maxBatchSize: 8 })
    const held = filled(model, 1)
    void outcomeOf(filled(model, 2).infer())
    await own.close()
    expect(own.stats().staging?.usedBytes ?? 0).toBe(0)
    expect(held.held).toBe(false)
  })

  it('have rejected requests as any have, and their memory afterwards', async () => {
    const model = await bigRows({ dynamicBatching: { holdUntilQueued: 8 }, rejectNonFinite: 'inputs' })
    const controller = new AbortController()
    const withdrawn = outcomeOf(filled(model, 1).infer({ signal: controller.signal }))
    expect(await outcomeOf(filled(model, NaN).infer())).toBe('ERR_INVALID_ARG')
    expect(await outcomeOf(filled(model, 2).infer({ timeoutMs: 5 }))).toBe('ERR_TIMEOUT')
    controller.abort('withdrawn')
    expect(await withdrawn).toBe('withdrawn')
    const kept = filled(model, 3)
    expect(await outcomeOf(kept.infer({ outputs: ['z' as never] }))).toBe('ERR_INVALID_ARG')
    expect(kept.held).toBe(true) // the options were wrong, not the rows
    const answers = [3, 4, 5, 6, 7, 8, 9].map((value) => expectValues(filled(model, value).infer(), value))
    await Promise.all([expectValues(kept.infer(), 3), ...answers])
  })
})

describe('a lease of', () => {
  it('a model with a cache is answered from it', async () => {
    const model = await bigRows({ responseCache: true })
    await expectValues(filled(model, 2).infer(), 2)
    await expectValues(filled(model, 2).infer(), 2)
    expect(model.stats().responseCache).toMatchObject({ hits: 1, misses: 1 })
  })

  it('several inputs, of several types, has an array for each', async () => {
    const model = await load(engine, small.addSub('float32'), { maxBatchSize: 4 })
    const lease = model.lease(2)
    lease.inputs['a']!.fill(5)
    lease.inputs['b']!.fill(3)
    const outputs = await lease.infer()
    expect(Object.values(outputs).map(({ data }) => data[31])).toEqual([8, 2])
    expect(Object.keys(model.lease().inputs)).toEqual(['a', 'b'])
  })

  it('rows whose lengths vary is given dims, and has memory of its own', async () => {
    const model = await load(engine, small.identityVariable('float32'), { maxBatchSize: 4 })
    const lease = model.lease(2, { dims: { x: [3] } })
    lease.inputs['x']!.set([1, 2, 3, 4, 5, 6])
    const { y } = await lease.infer()
    expect([y!.dims, [...y!.data]]).toEqual([
      [2, 3],
      [1, 2, 3, 4, 5, 6],
    ])
    for (const options of [{}, { dims: { x: [3, 3] } }, { dims: { x: [-1] } }]) {
      expect(() => model.lease(1, options)).toThrow(
        expect.objectContaining({ code: 'ERR_INVALID_ARG', argument: "options.dims['x']" }),
      )
    }
  })

  it('more than there is memory for is refused where it is taken', async () => {
    const model = await load(engine, small.identityVariable('float32'), { maxBatchSize: 4 })
    const lease = model.lease(1, { dims: { x: [2 ** 50] } })
    const refused = expect.objectContaining({
      code: 'ERR_INVALID_ARG',
      argument: "input 'x'",
      expected: 'rows that fit into memory',
    })
    expect(() => lease.inputs['x']).toThrow(refused)
    await expect(lease.infer()).rejects.toEqual(refused)
    expectSum(model)
  })

  it('a model that is not batched is of all of its input', async () => {
    const model = await load(engine, small.identityUnbatched('int64', [2, 2]))
    const lease = model.lease()
    ;(lease.inputs['x'] as unknown as BigInt64Array).set([1n, 2n, 3n, 4n])
    expect([...(await lease.infer())['y']!.data]).toEqual([1n, 2n, 3n, 4n])
    expect(() => model.lease(2)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', argument: 'rows' }),
    )
  })

  it('rows along another dimension, beside an input that they share, is copied to its batch', async () => {
    const model = await load(engine, scaledBlocks(), { dynamicBatching: { maxQueueDelayMs: 20 } })
    expect(model.metadata.inputs.map(({ batchAxis }) => batchAxis)).toEqual([1, null])
    const answers = [
      [1, 2],
      [3, 2],
      [2, 2],
      [2, 5],
    ].map(async ([rows, scale]) => {
      const lease = model.lease(rows)
      const { x, scale: shared } = lease.inputs
      expect([x!.length, shared!.length]).toEqual([2 * rows! * 1024, 1])
      for (let at = 0; at < x!.length; at++) x![at] = 1000 * rows! + (at % 4999)
      const expected = Array.from(x as Float32Array, (value) => value * scale!)
      shared!.fill(scale!)
      const { y } = await lease.infer()
      expect([y!.dims, Array.from(y!.data as Float32Array)]).toEqual([[2, rows, 1024], expected])
    })
    await Promise.all(answers)
    expect(model.stats()).toMatchObject({
      inferenceCount: 8,
      executionCount: 2,
      leases: { inferred: 4, rowsInPlace: 0, rowsCopied: 8 },
    })
  })

  it('a model with sequences is refused', async () => {
    const model = await load(engine, growing(), {
      maxBatchSize: 4,
      sequence: { state: [{ input: 'past', output: 'all' }] },
    })
    expect(() => model.lease()).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', argument: 'lease' }),
    )
    expect((await model.sequence().infer({ x: Float32Array.of(3) }))['sum']!.data[0]).toBe(3)
  })

  it('what cannot be leased is refused', async () => {
    const strings = await load(engine, small.stringConcat())
    expect(() => strings.lease()).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', argument: "input 'a'" }),
    )
    const model = await bigRows()
    for (const rows of [0, 9, 1.5, '1'])
      expect(() => model.lease(rows as number)).toThrow(expect.objectContaining({ argument: 'rows' }))
    for (const maxHoldMs of [0, -1, NaN, 2 ** 31])
      expect(() => model.lease(1, { maxHoldMs })).toThrow(
        expect.objectContaining({ argument: 'options.maxHoldMs' }),
      )
    expect(() => model.lease(1, { hold: 1 } as never)).toThrow(
      expect.objectContaining({ argument: 'options.hold' }),
    )
    const unreadable = new Proxy([], {
      get: () => {
        throw new Error('mine')
      },
    })
    expect(() => model.lease(1, { dims: { x: unreadable } })).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', argument: "options.dims['x']" }),
    )
    expect(() => model.lease(1, { dims: { z: [1] } })).toThrow(expect.objectContaining({ argument: 'input' }))
  })
})
