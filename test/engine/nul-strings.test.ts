import { expect, it } from 'vitest'
import { Tensor, type OutputValue } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { largestBatch } from '../support/against-plain.ts'
import { describeNative } from '../support/native.ts'
import { load, sharedEngine } from '../support/open.ts'

describeNative('strings with NUL characters, with the native executor', () => {
  const engine = sharedEngine({ executor: 'native', cpuWorkers: 1 })
  const texts = [
    ['a\0b', '\0'],
    ['', 'ä\0'],
    ['\0\0\0', 'plain'],
  ]

  it('come back whole, batched and alone', async () => {
    const model = await load(engine, small.identity('string', [2]))
    const answers = await Promise.all(texts.map((x) => model.infer({ x })))
    expect(answers.map(({ y }) => y!.data)).toEqual(texts)
    expect(largestBatch(model)).toBe(3)
    expect((await model.infer({ x: new Tensor('string', texts.flat(), [3, 2]) })).y!.data).toEqual(
      texts.flat(),
    )
  })

  it('are what a model computes with', async () => {
    const model = await load(engine, small.stringConcat())
    const { y } = await model.infer({
      a: new Tensor('string', ['a\0', '\0'], [1, 2]),
      b: new Tensor('string', ['\0c', ''], [1, 2]),
    })
    expect(y!.data).toEqual(['a\0\0c', '\0'])
  })

  it('come back in sequences', async () => {
    const model = await load(engine, small.stringsAsSequence())
    const { s } = (await model.infer({ x: new Tensor('string', ['x\0y'], [1]) })) as Record<
      string,
      OutputValue
    >
    expect((s as Tensor[]).map(({ data }) => data)).toEqual([['x\0y'], ['b']])
  })
})

it('the binding would cut them, so they are refused there', async () => {
  const engine = sharedEngine({ executor: 'binding', cpuWorkers: 1 })
  const model = await engine.load('strings', { path: small.identity('string', [2]) })
  const refused = {
    code: 'ERR_INVALID_ARG',
    argument: "input 'x'[1]",
    expected: expect.stringContaining('without NUL'),
  }
  await expect(model.infer({ x: ['a', 'b\0c'] })).rejects.toMatchObject(refused)
  expect((await model.infer({ x: ['a', 'b'] })).y!.data).toEqual(['a', 'b'])
})

it('the binding would cut the ids of sequences, so they are refused there', async () => {
  const engine = sharedEngine({ executor: 'binding', cpuWorkers: 1 })
  const sequence = { controls: [{ input: 'x', kind: 'correlationId' }] } as const
  const model = await engine.load('ids', { path: small.identity('string', [1]), maxBatchSize: 4, sequence })
  const refused = {
    code: 'ERR_INVALID_ARG',
    argument: 'options.sequenceId',
    expected: expect.stringContaining('without NUL'),
  }
  await expect(model.infer({}, { sequenceId: 'a\0b', sequenceStart: true })).rejects.toMatchObject(refused)
  expect((await model.infer({}, { sequenceId: 'ab', sequenceStart: true })).y!.data).toEqual(['ab'])
})
