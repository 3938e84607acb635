import { describe, expect, it } from 'vitest'
import { Tensor, type PipelineStep } from '../../src/index.ts'
import { scaledColumns } from '../models/batch-axes.ts'
import { identity } from '../models/identity.ts'
import { ownEngine, sharedEngine } from '../support/open.ts'
import { errorOf } from '../triton-repository/temporary.ts'
import { one, step } from './arithmetic.ts'

describe('a pipeline of a model whose rows lie along another dimension, or share an input', () => {
  const engine = sharedEngine()
  const load = () => engine.load('columns', { path: scaledColumns(), maxBatchSize: 8 })
  const steps: PipelineStep[] = [
    { model: 'columns', inputs: { x: 'x', scale: 'by' }, outputs: { scaled: 'once', sum: 'sum' } },
    { model: 'columns', inputs: { x: 'once', scale: 'by' }, outputs: { scaled: 'twice' } },
  ]

  it.each([1, 2, 5])('takes requests of %i rows as that does, and joins them', async (rows) => {
    const model = await load()
    const pipeline = await engine.loadPipeline('axes', {
      inputs: ['x', 'by'],
      steps,
      outputs: ['twice', 'sum'],
    })
    expect(pipeline.metadata.inputs).toMatchObject([
      { name: 'x', shape: [2, 'N', 3], batchAxis: 1 },
      { name: 'by', shape: [1], batchAxis: null },
    ])
    const feeds = [1, 10, 10, 1].map((by) => ({
      by: one(by),
      x: new Tensor(
        'float32',
        Float32Array.from({ length: 6 * rows }, (_, index) => by + index),
        [2, rows, 3],
      ),
    }))
    const answers = await Promise.all(feeds.map((each) => pipeline.infer(each)))
    for (const [index, { x, by }] of feeds.entries()) {
      const { scaled, sum } = await model.infer({ x, scale: by })
      const { scaled: twice } = await model.infer({ x: scaled!, scale: by })
      expect(answers[index]).toEqual({ twice, sum })
    }
    await expect(
      pipeline.infer(
        { x: new Tensor('float32', new Float32Array(54), [2, 9, 3]), by: one(1) },
        { splitOversized: false },
      ),
    ).rejects.toMatchObject({ code: 'ERR_INVALID_ARG' })
  })

  it('is refused a tensor whose rows lie elsewhere', async () => {
    await load()
    await engine.load('first', { path: identity('float32', [2, 3]), maxBatchSize: 8 })
    const wrong = {
      inputs: ['x', 'by'],
      steps: [
        step('first', 'x', 'a'),
        { model: 'columns', inputs: { x: 'a', scale: 'by' }, outputs: { sum: 'sum' } },
      ],
      outputs: ['sum'],
    }
    expect(await errorOf(engine.loadPipeline('elsewhere', wrong))).toMatchObject({
      code: 'ERR_MODEL_CONFIG', argument: 'steps[1].inputs.x', expected: "rows along dimension 1, of input 'x' of model 'columns'", received: "rows along dimension 0 ('a', made by output 'y' of step 'first')",
    }) // prettier-ignore
  })
})

it('a pipeline takes the elements of one row, where its function takes rows of any length', async () => {
  const engine = ownEngine()
  await engine.loadFunction('length', {
    inputs: [{ name: 'text', type: 'uint8', dims: [-1] }],
    outputs: [{ name: 'length', type: 'int32', dims: [1] }],
    run: ({ text }) => ({ length: Int32Array.from(text, ({ length }) => length) }),
  })
  const model = await engine.loadPipeline('lengths', {
    inputs: ['text'],
    steps: [{ model: 'length', inputs: { text: 'text' }, outputs: { length: 'length' } }],
    outputs: ['length'],
  })
  const answers = await Promise.all([3, 0, 5].map((length) => model.infer({ text: new Uint8Array(length) })))
  expect(answers.map(({ length }) => length!.data[0])).toEqual([3, 0, 5])
})
