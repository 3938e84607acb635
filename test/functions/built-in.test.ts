import { InferenceSession, Tensor as PlainTensor } from 'onnxruntime-node'
import { describe, expect, it } from 'vitest'
import {
  classification,
  nonMaxSuppression,
  softmax,
  topK,
} from '../../src/features/functions/function-exports.ts'
import { Tensor } from '../../src/index.ts'
import { graph } from '../models/builder.ts'
import { mulberry32 } from '../models/random.ts'
import * as small from '../models/small.ts'
import { largestBatch } from '../support/against-plain.ts'
import { sharedEngine } from '../support/open.ts'

const engine = sharedEngine()
const random = mulberry32(7)
const floats = (count: number) => Float32Array.from({ length: count }, () => 8 * random() - 4)
const softmaxOf = (logits: Float32Array) => {
  const powers = Array.from(logits, (value) => Math.exp(value))
  const sum = powers.reduce((total, power) => total + power, 0)
  return powers.map((power) => power / sum)
}

describe('the functions that are built in', () => {
  it('softmax: rows of all callers of as many classes share a batch', async () => {
    const model = await engine.loadFunction('softmax', softmax())
    const logits = [10, 10, 3, 10, 3, 1000].map(
      (classes) => new Tensor('float32', floats(classes), [1, classes]),
    )
    const answers = await Promise.all(
      logits.map((tensor) => model.infer({ logits: tensor }, { report: true })),
    )
    for (const [index, { outputs, report }] of answers.entries()) {
      expect(outputs.probabilities.dims).toEqual(logits[index]!.dims)
      for (const [at, value] of softmaxOf(logits[index]!.data).entries())
        expect(outputs.probabilities.data[at]).toBeCloseTo(value, 5)
      expect(report.batchSize).toBe(logits.filter(({ dims }) => dims[1] === logits[index]!.dims[1]).length)
    }
    expect(largestBatch(model)).toBe(3)
    const large = await model.infer({ logits: new Tensor('float32', Float32Array.of(1000, 1000), [1, 2]) })
    expect(large.probabilities.data).toEqual(Float32Array.of(0.5, 0.5))
  })

  it('topK: values, indices and labels, the highest first', async () => {
    const model = await engine.loadFunction('topK', topK({ count: 3, labels: ['cat', 'dog', 'fox', 'owl'] }))
    const answers = await Promise.all(
      [
        [1, 4, 2, 3],
        [4, 3, 2, 1],
      ].map((scores) => model.infer({ scores: new Tensor('float32', scores, [1, 4]) })),
    )
    expect(answers.map(({ labels }) => labels.data)).toEqual([
      ['dog', 'owl', 'fox'],
      ['cat', 'dog', 'fox'],
    ])
    expect(answers.map(({ values }) => [...values.data])).toEqual([
      [4, 3, 2],
      [4, 3, 2],
    ])
    expect(answers[0]!.indices).toMatchObject({
      type: 'int64',
      dims: [1, 3],
      data: BigInt64Array.of(1n, 3n, 2n),
    })
  })

  it('topK: a request with fewer classes than are asked for is rejected, and no other', async () => {
    const model = await engine.loadFunction('topK-few', topK({ count: 3 }))
    const [few, enough] = await Promise.allSettled(
      [2, 3].map((classes) => model.infer({ scores: new Tensor('float32', floats(classes), [1, classes]) })),
    )
    expect(few).toMatchObject({
      status: 'rejected',
      reason: { code: 'ERR_EXECUTION', message: expect.stringContaining('TopK') },
    })
    expect(enough!.status).toBe('fulfilled')
  })

  it('classification: the highest probabilities of logits, of several rows too', async () => {
    const model = await engine.loadFunction(
      'classification',
      classification({ count: 2, labels: ['a', 'b', 'c'] }),
    )
    const logits = floats(12)
    const { values, labels } = await model.infer({ logits: new Tensor('float32', logits, [4, 3]) })
    expect([values.dims, labels.dims]).toEqual([
      [4, 2],
      [4, 2],
    ])
    for (let row = 0; row < 4; row++) {
      const best = softmaxOf(logits.slice(3 * row, 3 * row + 3))
        .map((value, index) => ({ value, label: 'abc'[index] }))
        .sort((a, b) => b.value - a.value)
      expect(labels.data.slice(2 * row, 2 * row + 2)).toEqual([best[0]!.label, best[1]!.label])
      expect(values.data[2 * row]).toBeCloseTo(best[0]!.value, 5)
    }
  })

  it('take scores with trailing dims of 1, as heads of convolutions give them', async () => {
    const scores = Float32Array.of(1, 4, 2, 3, 4, 3, 2, 1)
    const [top, soft, classes] = await Promise.all([
      engine.loadFunction('trailing-top', topK({ count: 2 })),
      engine.loadFunction('trailing-soft', softmax()),
      engine.loadFunction('trailing-classes', classification({ labels: ['a', 'b', 'c', 'd'] })),
    ])
    const [flat, deep] = await Promise.all(
      [
        [2, 4],
        [2, 4, 1, 1],
      ].map((dims) => top.infer({ scores: new Tensor('float32', scores, dims) })),
    )
    expect([deep!.values.dims, deep!.values.data, deep!.indices.data]).toEqual([
      [2, 2],
      flat!.values.data,
      flat!.indices.data,
    ])
    expect(top.stats().executionCount).toBe(1) // they share a run
    const { probabilities } = await soft.infer({ logits: new Tensor('float32', scores, [2, 4, 1]) })
    expect(probabilities.dims).toEqual([2, 4])
    expect(probabilities.data[1]).toBeCloseTo(softmaxOf(scores.slice(0, 4))[1]!, 5)
    expect(
      (await classes.infer({ logits: new Tensor('float32', scores, [2, 4, 1, 1]) })).labels.data,
    ).toEqual(['b', 'a'])
    for (const dims of [[2, 2, 2], [2, 1, 1, 4], [8], [2, 4, 1, 0]])
      await expect(
        top.infer({ scores: new Tensor('float32', dims.includes(0) ? [] : scores, dims) }),
      ).rejects.toMatchObject({ code: 'ERR_INVALID_ARG', argument: "input 'scores'" })
  })

  it('take them in a pipeline, from a model and from a request', async () => {
    await engine.load('head', { path: small.identity('float32', [4, 1, 1]) })
    await engine.loadFunction('top', topK({ count: 1 }))
    const line = await engine.loadPipeline('head and top', {
      inputs: ['x'],
      steps: [
        { model: 'head', inputs: { x: 'x' }, outputs: { y: 'scores' } },
        { model: 'top', inputs: { scores: 'scores' }, outputs: { indices: 'best' } },
      ],
      outputs: ['best', 'scores'],
    })
    const { best, scores } = await line.infer({
      x: new Tensor('float32', [1, 4, 2, 3, 4, 3, 2, 1], [2, 4, 1, 1]),
    })
    expect([best!.data, scores!.dims]).toEqual([BigInt64Array.of(1n, 0n), [2, 4, 1, 1]])
    const alone = await engine.loadPipeline('only top', {
      inputs: ['x'],
      steps: [{ model: 'top', inputs: { scores: 'x' }, outputs: { indices: 'best' } }],
      outputs: ['best'],
    })
    expect(
      (await alone.infer({ x: new Tensor('float32', [1, 4, 2, 3], [1, 4, 1, 1]) }))['best']!.data,
    ).toEqual(BigInt64Array.of(1n))
    await engine.load('other head', { path: small.identity('float32', [4, 2, 1]) })
    await expect(
      engine.loadPipeline('no head', {
        inputs: ['x'],
        steps: [
          { model: 'other head', inputs: { x: 'x' }, outputs: { y: 'scores' } },
          { model: 'top', inputs: { scores: 'scores' }, outputs: { indices: 'best' } },
        ],
        outputs: ['best'],
      }),
    ).rejects.toMatchObject({ code: 'ERR_MODEL_CONFIG' })
  })

  it("nonMaxSuppression: leaves what ONNX's operator leaves, as many boxes as each caller has", async () => {
    const [classes, boxes] = [3, 200]
    const operator = graph('nms').input('boxes', 'float32', [1, boxes, 4]).input('scores', 'float32', [1, classes, boxes]).output('selected', 'int64', ['n', 3])
      .initializer('most', 'int64', [1], [200]).initializer('iou', 'float32', [1], [0.4]).initializer('score', 'float32', [1], [0.3])
      .node('NonMaxSuppression', ['boxes', 'scores', 'most', 'iou', 'score'], ['selected']).build() // prettier-ignore
    const session = await InferenceSession.create(operator)
    const model = await engine.loadFunction(
      'nms',
      nonMaxSuppression({ iouThreshold: 0.4, scoreThreshold: 0.3 }),
    )
    const requests = Array.from({ length: 8 }, (_, request) => ({
      boxes: Float32Array.from({ length: 4 * boxes }, (_, at) => random() * 10 + (at % 4 > 1 ? 3 : 0)),
      scores: Float32Array.from({ length: classes * boxes }, () => random() * (0.4 + 0.1 * request)),
    }))
    const answers = await Promise.all(
      requests.map((each) =>
        model.infer({
          boxes: new Tensor('float32', each.boxes, [1, boxes, 4]),
          scores: new Tensor('float32', each.scores, [1, classes, boxes]),
        }),
      ),
    )
    for (const [index, each] of requests.entries()) {
      const { selected } = await session.run({
        boxes: new PlainTensor('float32', each.boxes, [1, boxes, 4]),
        scores: new PlainTensor('float32', each.scores, [1, classes, boxes]),
      })
      const rows = Array.from({ length: selected!.dims[0]! }, (_, at) =>
        Array.from((selected!.data as BigInt64Array).subarray(3 * at, 3 * at + 3), Number),
      )
      const expected = rows
        .map(([, label, box]) => ({
          label: label!,
          score: each.scores[label! * boxes + box!]!,
          box: [...each.boxes.subarray(4 * box!, 4 * box! + 4)],
        }))
        .sort((a, b) => b.score - a.score)
      const answer = answers[index]!
      expect(answer.boxes.dims).toEqual([1, expected.length, 4])
      expect([...answer.scores.data]).toEqual(expected.map(({ score }) => score))
      expect([...answer.classes.data].map(Number)).toEqual(expected.map(({ label }) => label))
      expect([...answer.boxes.data]).toEqual(expected.flatMap(({ box }) => box))
    }
    expect(new Set(answers.map(({ scores }) => scores.dims[1])).size).toBeGreaterThan(3)
    expect(model.stats().executionCount).toBe(1)
  })

  it('nonMaxSuppression: takes boxes by their centres, and nothing at all', async () => {
    const model = await engine.loadFunction(
      'nms-centre',
      nonMaxSuppression({ boxes: 'centre', maxDetections: 1 }),
    )
    const boxes = new Tensor('float32', Float32Array.of(5, 5, 2, 2, 5.2, 5, 2, 2, 50, 50, 2, 2), [1, 3, 4])
    const one = await model.infer({
      boxes,
      scores: new Tensor('float32', Float32Array.of(0.5, 0.9, 0.8), [1, 1, 3]),
    })
    expect([one.boxes.dims, one.scores.data]).toEqual([[1, 1, 4], Float32Array.of(0.9)])
    const none = await model.infer({
      boxes,
      scores: new Tensor('float32', Float32Array.of(0.1, 0.1, 0.1), [1, 1, 3]),
    })
    expect([none.boxes.dims, none.scores.dims]).toEqual([
      [1, 0, 4],
      [1, 0],
    ])
  })

  it.each([
    [() => topK({ count: 0 }), 'count'],
    [() => nonMaxSuppression({ iouThreshold: 2 }), 'iouThreshold'],
    [() => nonMaxSuppression({ maxDetections: 1.5 }), 'maxDetections'],
  ])('refuse an option that is out of range: %s', (make, argument) => {
    expect(make).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARG', argument }))
  })
})

describe('a function that the application runs itself', () => {
  it('is one of a model in all else: it is batched, fails alone, is scaled and closed', async () => {
    const model = await engine.loadFunction('doubled', {
      inputs: [{ name: 'x', type: 'int32' }],
      outputs: [{ name: 'y', type: 'int32' }],
      run: async ({ x }, { fail }) => {
        await new Promise((resolve) => setImmediate(resolve))
        return { y: Array.from(x.data, (value, row) => (value === 5 ? fail(row, 'five') : 2 * value)) }
      },
      concurrency: 2,
    })
    const answers = await Promise.allSettled(
      Array.from({ length: 100 }, (_, value) => model.infer({ x: Int32Array.of(value) })),
    )
    expect(answers.filter(({ status }) => status === 'rejected')).toHaveLength(1)
    expect(answers[5]).toMatchObject({
      reason: { code: 'ERR_EXECUTION', message: expect.stringContaining('five') },
    })
    expect(answers[99]).toMatchObject({ value: { y: { data: Int32Array.of(198) } } })
    expect(model.stats()).toMatchObject({ inferenceStats: { success: { count: 99 }, fail: { count: 1 } } })
    await model.scale({ count: 2 })
    expect(model.capacity().instances).toBe(2)
    await model.unload()
    expect(engine.models().map(({ name }) => name)).not.toContain('doubled')
  })

  it('is not waited for once its promise takes longer than maxRunMs', async () => {
    const model = await engine.loadFunction('never', {
      inputs: [{ name: 'x', type: 'int32' }],
      outputs: [{ name: 'y', type: 'int32' }],
      maxRunMs: 50,
      run: ({ x }) => (x.data[0] === 0 ? new Promise<never>(() => {}) : { y: x.data }),
    })
    await expect(model.infer({ x: Int32Array.of(0) })).rejects.toMatchObject({ code: 'ERR_TIMEOUT' })
    expect((await model.infer({ x: Int32Array.of(1) })).y.data).toEqual(Int32Array.of(1))
  })

  it('writes nothing to where others are by then when its promise comes too late', async () => {
    const gates: (() => void)[] = []
    const model = await engine.loadFunction('late', {
      inputs: [{ name: 'x', type: 'int32', dims: ['n'] }],
      outputs: [{ name: 'y', type: 'int32' }],
      run: async ({ x }) => {
        await new Promise<void>((resolve) => gates.push(resolve))
        return { y: Int32Array.of(x.data.reduce((sum, value) => sum + value, 0)) }
      },
      concurrency: 2,
    })
    const ask = (length: number, options?: { maxRunMs: number }) =>
      model.infer({ x: new Tensor('int32', new Int32Array(length).fill(7), [1, length]) }, options)
    await expect(ask(16, { maxRunMs: 20 })).rejects.toMatchObject({ code: 'ERR_TIMEOUT' })
    const others = [1000, 1001].map((length) => ask(length)) // in both slots, one of which the first has had
    while (gates.length < 3) await new Promise(setImmediate)
    gates.shift()!()
    await new Promise(setImmediate)
    for (const open of gates) open()
    expect((await Promise.all(others)).map(({ y }) => y.data[0])).toEqual([7000, 7007])
  })

  it('reads nothing of others, however long it goes on after it was given up', async () => {
    const gates: (() => void)[] = []
    const seen: number[][] = []
    const model = await engine.loadFunction('late-reader', {
      inputs: [{ name: 'x', type: 'int32', dims: [4] }],
      outputs: [{ name: 'y', type: 'int32' }],
      run: async ({ x }) => {
        if (x.data[0] === 1) await new Promise<void>((resolve) => gates.push(resolve))
        seen.push([...x.data])
        return { y: Int32Array.from({ length: x.rows }, () => 0) }
      },
    })
    const ask = (value: number, options?: { maxRunMs: number }) =>
      model.infer({ x: new Int32Array(4).fill(value) }, options)
    await expect(ask(1, { maxRunMs: 20 })).rejects.toMatchObject({ code: 'ERR_TIMEOUT' })
    for (const value of [7, 8, 9]) await ask(value) // in every slot
    for (const open of gates) open()
    await new Promise(setImmediate)
    expect(seen.map(([first]) => first)).toEqual([7, 8, 9, ...gates.map(() => 1)])
    expect((await ask(5)).y.data).toEqual(Int32Array.of(0))
  })

  it('may throw and refuse anything, which rejects its caller alone', async () => {
    const thrown = Object.create(null) as object
    const runs = [() => { throw thrown }, async () => { throw thrown }, (_: unknown, { fail }: { fail: (row: number, error: unknown) => null }) => ({ y: [fail(0, thrown)] })] // prettier-ignore
    for (const [index, run] of runs.entries()) {
      const model = await engine.loadFunction(`throws-${index}`, {
        inputs: [{ name: 'x', type: 'int32' }],
        outputs: [{ name: 'y', type: 'int32' }],
        run: run as never,
      })
      await expect(model.infer({ x: Int32Array.of(1) })).rejects.toMatchObject({
        code: 'ERR_EXECUTION',
        message: expect.stringContaining('an instance of Object'),
      })
    }
  })

  it('keeps what it gives: no caller changes what another one gets', async () => {
    const kept = ['its own']
    const model = await engine.loadFunction('kept', {
      inputs: [{ name: 'x', type: 'int32' }],
      outputs: [{ name: 'y', type: 'string' }],
      run: () => ({ y: kept }),
    })
    const { y } = await model.infer({ x: Int32Array.of(1) })
    y.data[0] = 'changed by a caller'
    expect((await model.infer({ x: Int32Array.of(1) })).y.data).toEqual(['its own'])
    expect(kept).toEqual(['its own'])
  })

  it('comes from a module or is one, and not both', async () => {
    const both = {
      inputs: [{ name: 'x', type: 'int32' }],
      outputs: [{ name: 'y', type: 'int32' }],
      run: () => ({ y: [] }),
      module: 'f.js',
    } as never
    await expect(engine.loadFunction('both', both)).rejects.toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument: 'run',
    })
  })
})
