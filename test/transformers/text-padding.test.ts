import { InferenceSession } from 'onnxruntime-node'
import { expect, it } from 'vitest'
import { findTextPadding } from '../../src/adapters/transformers/text-padding.ts'
import { graph, type GraphBuilder } from '../models/builder.ts'
import { modelPath } from '../models/cache.ts'
import { identity } from '../models/identity.ts'
import { bert } from '../models/pipelines.ts'
import { vocabulary } from '../models/tokenizer.ts'

const tokens = { padId: 0, vocabularySize: vocabulary.length, longestText: Infinity }
const pathOf = ({ root, name }: ReturnType<typeof bert>) => `${root}/${name}/onnx/model.onnx`
const found = async (path: string, sizes?: 'longest' | readonly number[], longestText = Infinity) =>
  findTextPadding(
    await InferenceSession.create(path, { logSeverityLevel: 4 }),
    { ...tokens, longestText },
    sizes,
  )

/** A model of texts that computes as it is told, from `input_ids` to `y`. */
function textModel(name: string, dims: (string | number)[], nodes: (model: GraphBuilder) => void): string {
  return modelPath(`text-${name}`, () => {
    const model = graph('text')
      .input('input_ids', 'int64', ['batch', 'length'])
      .input('attention_mask', 'int64', ['batch', 'length'])
      .output('y', 'int64', dims)
    nodes(model)
    return model.build()
  })
}

it('texts are filled up with the id for that and a mask of zeros, and outputs of their length are cut back', async () => {
  expect(await found(pathOf(bert('token-classification')), 'longest')).toEqual([
    { input: 'input_ids', dim: 1, value: 0, sizes: 'longest', outputs: [{ name: 'logits', dim: 1 }] },
    { input: 'attention_mask', dim: 1, value: 0, sizes: 'longest' },
    { input: 'token_type_ids', dim: 1, value: 0, sizes: 'longest' },
  ])
})

it('an output without the length of the text is left as it is', async () => {
  const [first] = (await found(pathOf(bert('text-classification'))))!
  expect(first).toEqual({ input: 'input_ids', dim: 1, value: 0 })
})

it('nothing is filled up to more than the model takes', async () => {
  const of77 = pathOf(bert('text-classification', undefined, 77))
  const sizes = async (...given: Parameters<typeof found>) => (await found(...given))![0]!.sizes
  expect(await sizes(of77, [32, 64, 96, 128], 77)).toEqual([32, 64, 77])
  expect(await sizes(of77, [32, 64], 77)).toEqual([32, 64])
  expect(await sizes(of77, [96], 77)).toEqual([77])
  expect(await sizes(of77, [32, 96])).toBe('longest') // what it takes is not known
})

it('nothing is filled up where it would change the rest', async () => {
  const sum = textModel('sum', ['batch', 1], (model) =>
    model
      .initializer('axes', 'int64', [1], [1n])
      .node('ReduceSum', ['attention_mask', 'axes'], ['count'])
      .node('Shape', ['input_ids'], ['dims'])
      .node('ReduceProd', ['dims'], ['all'], { keepdims: 1 })
      .node('Mul', ['count', 'all'], ['y']),
  )
  expect(await found(sum)).toBeNull()
})

it('nothing is filled up where an output has the length twice', async () => {
  const square = textModel('square', ['batch', 'length', 'length'], (model) => model.initializer('one', 'int64', [1], [1n]).initializer('two', 'int64', [1], [2n])
    .node('Unsqueeze', ['attention_mask', 'one'], ['row']).node('Unsqueeze', ['attention_mask', 'two'], ['column']).node('Mul', ['row', 'column'], ['y'])) // prettier-ignore
  expect(await found(square)).toBeNull()
})

it('nothing is filled up of what is no text', async () => {
  expect(await found(identity('float32'))).toBeNull()
  expect(await found(identity('int64'))).toBeNull()
})
