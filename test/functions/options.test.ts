import { describe, expect, it } from 'vitest'
import { Tensor } from '../../src/index.ts'
import { ownEngine, sharedEngine } from '../support/open.ts'
import { loadFunction } from './load-function.ts'

const engine = sharedEngine()
const declared = { inputs: [{ name: 'x', type: 'int32' }], outputs: [{ name: 'y', type: 'int32' }] } as const
const doubled = { inputs: [{ name: 'x', type: 'int32' }], outputs: [{ name: 'x', type: 'int32' }] } as const
const one = (x: number) => ({ x: Int32Array.of(x) })

describe('options that functions share with models', () => {
  it('warmup: samples are run on each instance before it serves, and are in no statistics', async () => {
    const model = await loadFunction(engine, 'postprocessor.mjs', {
      inputs: [{ name: 'logits', type: 'float32', dims: ['classes'] }],
      outputs: [
        { name: 'probabilities', type: 'float32', dims: ['classes'] },
        { name: 'seen', type: 'int32' },
      ],
      warmup: [{ feeds: { logits: new Tensor('float32', [1, 2], [1, 2]) }, count: 3 }],
    })
    const { seen } = await model.infer({ logits: new Tensor('float32', [1, 2], [1, 2]) })
    expect([seen.data[0], model.stats().inferenceCount]).toEqual([4, 1])
  })

  it.each([-1, -2, -9])(
    'warmup: a sample that fails, by what %i stands for, makes the load fail',
    async (row) => {
      await expect(
        loadFunction(ownEngine(), 'misbehaving.mjs', { ...declared, warmup: [{ feeds: one(row) }] }),
      ).rejects.toMatchObject({ code: 'ERR_MODEL_LOAD' })
    },
  )

  it('warmup: a sample that loops for ever ends the load after maxRunMs', async () => {
    await expect(
      loadFunction(ownEngine(), 'misbehaving.mjs', {
        ...declared,
        maxRunMs: 100,
        warmup: [{ feeds: one(-3) }],
      }),
    ).rejects.toMatchObject({ code: 'ERR_MODEL_LOAD' })
  })

  it('splitOversized: a request of more rows is run in parts and joined', async () => {
    const model = await loadFunction(engine, 'doubled.mjs', {
      ...doubled,
      maxBatchSize: 4,
      splitOversized: true,
    })
    const { x } = await model.infer({
      x: new Tensor(
        'int32',
        Int32Array.from({ length: 11 }, (_, at) => at),
        [11],
      ),
    })
    expect([...x.data]).toEqual(Array.from({ length: 11 }, (_, at) => 2 * at))
    expect(model.stats().executionCount).toBe(3)
  })

  it('responseCache: an answer is kept, also of rows that have lengths of their own', async () => {
    const model = await loadFunction(engine, 'reversed.mjs', {
      inputs: [{ name: 'x', type: 'uint8', dims: [-1] }],
      outputs: [{ name: 'x', type: 'uint8', dims: [-1] }],
      responseCache: true,
    })
    for (const data of [[1, 2, 3], [1, 2], [1, 2, 3], []]) {
      const { x } = await model.infer({ x: Uint8Array.from(data) })
      expect([x.dims, [...x.data]]).toEqual([[1, data.length], data.toReversed()])
    }
    expect(model.stats().responseCache).toMatchObject({ hits: 1, misses: 3 })
  })

  it('dynamicBatching: answers come in the order of their requests, from several instances', async () => {
    const model = await loadFunction(engine, 'doubled.mjs', {
      ...doubled,
      maxBatchSize: 2,
      dynamicBatching: { preserveOrdering: true },
      instanceGroup: [{ count: 2 }],
    })
    const order: number[] = []
    await Promise.all(Array.from({ length: 50 }, (_, at) => model.infer(one(at)).then(() => order.push(at))))
    expect(order).toEqual(Array.from({ length: 50 }, (_, at) => at))
  })

  it('version: versions of one name stand beside each other, and beside models', async () => {
    const name = 'versions-of-a-function'
    await engine.loadFunction(name, { ...doubled, run: ({ x }) => ({ x: x.data }), version: 1 })
    const second = await engine.loadFunction(name, {
      ...doubled,
      run: ({ x }) => ({ x: x.data.map((value) => -value) }),
      version: 2,
    })
    const answers = await Promise.all([
      engine.infer(name, one(3), { version: 1 }),
      engine.infer(name, one(3)),
      second.infer(one(3)),
    ])
    expect(answers.map(({ x }) => x!.data)).toEqual([Int32Array.of(3), Int32Array.of(-3), Int32Array.of(-3)])
  })
})

describe('rows that have dims of their own', () => {
  it('of rank two are given with their dims, and answered with others', async () => {
    const model = await loadFunction(engine, 'transposed.mjs', {
      inputs: [{ name: 'x', type: 'float32', dims: [-1, -1] }],
      outputs: [{ name: 'x', type: 'float32', dims: [-1, -1] }],
    })
    const requests = [
      [2, 3],
      [1, 4],
      [3, 3],
      [0, 5],
    ].map(
      ([a, b]) =>
        new Tensor(
          'float32',
          Float32Array.from({ length: a! * b! }, (_, at) => at),
          [1, a!, b!],
        ),
    )
    const answers = await Promise.all(requests.map((x) => model.infer({ x })))
    for (const [index, { x }] of answers.entries()) {
      const [, a, b] = requests[index]!.dims as [number, number, number]
      expect(x.dims).toEqual([1, b, a])
      expect([...x.data]).toEqual(Array.from({ length: a * b }, (_, at) => (at % a) * b + Math.floor(at / a)))
    }
    expect(model.stats().executionCount).toBe(1)
  })

  it('cannot be one tensor in the answer of one request, which is rejected alone', async () => {
    const model = await engine.loadFunction('uneven', {
      inputs: [{ name: 'n', type: 'int32' }],
      outputs: [{ name: 'zeros', type: 'uint8', dims: [-1] }],
      run: ({ n }) => ({ zeros: Array.from(n.data, (count) => new Uint8Array(count)) }),
    })
    const answers = await Promise.allSettled(
      [[1, 2], [3, 3], [4]].map((n) => model.infer({ n: new Tensor('int32', n, [n.length]) })),
    )
    expect(answers[0]).toMatchObject({
      status: 'rejected',
      reason: {
        code: 'ERR_EXECUTION',
        message: expect.stringContaining("output 'zeros' has rows of different dims"),
      },
    })
    expect(answers.slice(1)).toMatchObject([
      { value: { zeros: { dims: [2, 3] } } },
      { value: { zeros: { dims: [1, 4] } } },
    ])
  })

  it('never show what another caller has sent before', async () => {
    const model = await loadFunction(engine, 'reversed.mjs', {
      inputs: [{ name: 'x', type: 'uint8', dims: [-1] }],
      outputs: [{ name: 'x', type: 'uint8', dims: [-1] }],
    })
    for (let round = 0; round < 30; round++) {
      const lengths = Array.from({ length: 20 }, (_, at) => (round * 37 + at * 101) % 700)
      const answers = await Promise.all(
        lengths.map((length, at) =>
          model.infer({ x: new Uint8Array(length).fill(1 + ((round + at) % 255)) }),
        ),
      )
      for (const [at, { x }] of answers.entries()) {
        expect(x.dims).toEqual([1, lengths[at]])
        expect(x.data.every((value) => value === 1 + ((round + at) % 255))).toBe(true)
      }
    }
  })
})
