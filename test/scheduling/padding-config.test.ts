import { describe, expect, it } from 'vitest'
import type { ModelConfig, PaddingConfig } from '../../src/index.ts'
import { expectRefusal, rejectionOf, type Refusal } from '../abuse/refusal.ts'
import { maskedSequence } from '../models/scheduling.ts'
import * as small from '../models/small.ts'
import { load, sharedEngine } from '../support/open.ts'

const engine = sharedEngine()

async function refused(path: string, config: Omit<ModelConfig, 'path'>, refusal: Refusal): Promise<void> {
  expectRefusal(await rejectionOf(() => load(engine, path, config)), { code: 'ERR_MODEL_CONFIG', ...refusal })
}

const x = { input: 'x', dim: 1 }
type Case = [what: string, padding: unknown, refusal: Refusal]

const cases: Case[] = [
  [
    'an input that there is not',
    { input: 'ids', dim: 1 },
    { argument: 'padding[0].input', expected: /one of 'x', 'mask'/, received: 'ids' },
  ],
  ['an input twice', [x, x], { argument: 'padding[1].input', expected: /no other entry/, received: 'x' }],
  [
    'the batch dimension',
    { input: 'x', dim: 0 },
    { argument: 'padding[0].input', expected: /after the first.*\[N, L, 4\]/, received: 0 },
  ],
  [
    'a dimension that is fixed',
    { input: 'x', dim: 2 },
    { argument: 'padding[0].input', expected: /variable dimension of 'x'/, received: 2 },
  ],
  ['a dimension that there is not', { input: 'x', dim: 3 }, { argument: 'padding[0].input', received: 3 }],
  [
    'an output that there is not',
    { ...x, outputs: [{ name: 'y', dim: 1 }] },
    { argument: 'padding[0].outputs', expected: /'positions', 'sum'/, received: 'y' },
  ],
  [
    'an output without that dimension',
    { ...x, outputs: [{ name: 'sum', dim: 1 }] },
    { argument: 'padding[0].outputs', expected: /\[N, 1\]/, received: 1 },
  ],
  [
    'the batch dimension of an output',
    { ...x, outputs: [{ name: 'positions', dim: 0 }] },
    { argument: 'padding[0].outputs', received: 0 },
  ],
  [
    'an output twice',
    {
      ...x,
      outputs: [
        { name: 'positions', dim: 1 },
        { name: 'positions', dim: 1 },
      ],
    },
    { argument: 'padding[0].outputs', expected: /each output once/, received: 'positions' },
  ],
  [
    'an output in two entries',
    [
      { ...x, outputs: [{ name: 'positions', dim: 1 }] },
      { input: 'mask', dim: 1, outputs: [{ name: 'positions', dim: 1 }] },
    ],
    { argument: 'padding[1].outputs', expected: /in one entry/, received: 'positions' },
  ],
  [
    'a value that the type has not',
    [x, { input: 'mask', dim: 1, value: Infinity }],
    { argument: 'padding[1].value', expected: /int64/, received: Infinity },
  ],
  [
    'a fraction for whole numbers',
    { input: 'mask', dim: 1, value: 0.5 },
    { argument: 'padding[0].value', expected: /int64/, received: 0.5 },
  ],
  ['an input without a name', { input: '', dim: 1 }, { argument: 'padding.input', received: '' }],
  ['no dimension', { input: 'x' }, { argument: 'padding.dim' }],
  ['a negative dimension', { input: 'x', dim: -1 }, { argument: 'padding.dim', received: -1 }],
  ['no sizes', { ...x, sizes: [] }, { argument: 'padding.sizes' }],
  ['a size of 0', { ...x, sizes: [0, 4] }, { argument: 'padding.sizes[0]', received: 0 }],
  ['sizes by another word', { ...x, sizes: 'shortest' }, { argument: 'padding.sizes', received: 'shortest' }],
  ['a value of NaN', { ...x, value: NaN }, { argument: 'padding.value', received: NaN }],
  ['an unknown option', { ...x, length: 8 }, { argument: 'padding.length', received: 'length' }],
  [
    'an unknown option of an entry',
    [x, { input: 'mask', dim: 1, to: 8 }],
    { argument: 'padding[1].to', received: 'to' },
  ],
]

describe('padding is refused', () => {
  it.each(cases)('of %s', (_, padding, refusal) =>
    refused(maskedSequence('int64'), { padding: padding as PaddingConfig }, refusal),
  )

  it('of strings', () =>
    refused(
      small.identityVariable('string'),
      { padding: x },
      { argument: 'padding[0].input', expected: /of numbers/, received: "'x' of strings" },
    ))

  it('for a model without a batch dimension', () =>
    refused(
      small.identityVariable('float32'),
      { padding: x, maxBatchSize: 0 },
      { argument: 'padding', expected: /batch dimension/ },
    ))

  it('of an input whose rank is unknown', () =>
    refused(small.unknownRank('float32'), { padding: x }, { argument: 'padding' }))

  it.each([
    ['float32', 1e39],
    ['float32', -1e39],
    ['float32', 1e-46],
    ['float16', 65_520],
    ['float16', -1e6],
    ['float16', 1e-8],
    ['uint8', -1],
    ['uint8', 256],
    ['int8', 128],
    ['uint64', -1],
    ['int64', 2 ** 63],
    ['bool', 2],
  ] as const)('with a value that %s does not have: %d', (type, value) => {
    const refusal = { argument: 'padding[0].value', expected: new RegExp(type), received: value }
    return refused(small.identityVariable(type), { padding: { ...x, value } }, refusal)
  })
})

it.each([
  ['float32', -Infinity],
  ['float32', 0.1],
  ['float32', 1e-45],
  ['float64', 1e300],
  ['float16', -Infinity],
  ['float16', 65_504],
  ['float16', 1e-7],
  ['float16', -0],
] as const)('padding with a value that %s has, or rounds, is accepted: %d', async (type, value) => {
  await load(engine, small.identityVariable(type), { padding: { ...x, value } })
})

it('padding of no input is no padding', async () => {
  const model = await load(engine, maskedSequence('int64'), { padding: [] })
  expect(model.stats().padding).toEqual({ ownElements: 0, paddedElements: 0, wasteShare: 0 })
})
