import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { InferOptions } from '../../src/index.ts'
import { benchOfTwoInputs, keepsGoodOnesWell, refusedAmongGoodOnes, type Bench } from './among-good-ones.ts'
import { expectNoWarnings, rejectionOf, type Refusal } from './refusal.ts'

let bench: Bench
beforeAll(async () => void (bench = await benchOfTwoInputs()))
afterAll(() => bench.engine.close())
expectNoWarnings()

const feeds = { a: new Float32Array(4), b: new BigInt64Array(1) }
const infer = (options: unknown) => bench.model.infer(feeds, options as InferOptions)

const timeout = { argument: 'options.timeoutMs' }
const outputs = { argument: 'options.outputs' }
type Case = [what: string, options: unknown, refusal: Refusal]

const cases: Case[] = [
  ['null', null, { argument: 'options', received: null }],
  ['a number', 5, { argument: 'options', received: 5 }],
  ['an array', [], { argument: 'options' }],
  [
    'a signal instead of options',
    new AbortController().signal,
    { argument: 'options', expected: /a plain object/ },
  ],
  [
    'an unknown option',
    { timeout: 5 },
    { argument: 'options.timeout', expected: /timeoutMs/, received: 'timeout' },
  ],
  ['timeoutMs of 0', { timeoutMs: 0 }, { ...timeout, received: 0 }],
  ['a negative timeoutMs', { timeoutMs: -1 }, { ...timeout, received: -1 }],
  ['timeoutMs of NaN', { timeoutMs: NaN }, { ...timeout, received: NaN }],
  ['an infinite timeoutMs', { timeoutMs: Infinity }, { ...timeout, received: Infinity }],
  ['timeoutMs as text', { timeoutMs: '100' }, { ...timeout, received: '100' }],
  ['timeoutMs of null', { timeoutMs: null }, { ...timeout, received: null }],
  ['timeoutMs that no timer can keep', { timeoutMs: 2 ** 31 }, timeout],
  [
    'a signal of another kind',
    { signal: { aborted: false } },
    { argument: 'options.signal', expected: /AbortSignal/ },
  ],
  ['a controller for a signal', { signal: new AbortController() }, { argument: 'options.signal' }],
  [
    'what only inherits from a signal',
    { signal: Object.create(AbortSignal.prototype) as AbortSignal },
    { argument: 'options.signal' },
  ],
  [
    'a proxy of a signal',
    { signal: new Proxy(new AbortController().signal, {}) },
    { argument: 'options.signal' },
  ],
  ['a signal of null', { signal: null }, { argument: 'options.signal', received: null }],
  ['no outputs', { outputs: [] }, { ...outputs, received: [] }],
  ['an unknown output', { outputs: ['y', 'z'] }, { ...outputs, expected: /'y'/, received: 'z' }],
  ['an output twice', { outputs: ['y', 'y'] }, { ...outputs, expected: /each name once/, received: 'y' }],
  ['outputs as text', { outputs: 'y' }, { ...outputs, received: 'y' }],
  ['an output by index', { outputs: [0] }, { ...outputs, received: 0 }],
  ['outputs as an object', { outputs: { y: null } }, outputs],
  ['a requestId of a number', { requestId: 7 }, { argument: 'options.requestId', received: 7 }],
]

describe('a request is refused alone when its options are wrong', () => {
  it.each(cases)('%s', (_, options, refusal) => refusedAmongGoodOnes(bench, () => infer(options), refusal))
})

describe('an aborted signal', () => {
  it('rejects with its own reason when it was aborted before', async () => {
    const reason = { why: 'changed my mind' }
    expect(await keepsGoodOnesWell(bench, () => infer({ signal: AbortSignal.abort(reason) }))).toBe(reason)
  })

  it('rejects with an AbortError when it has no reason of its own', async () => {
    const error = await keepsGoodOnesWell(bench, () => infer({ signal: AbortSignal.abort() }))
    expect(error).toMatchObject({ name: 'AbortError' })
  })

  it('takes its request out of the batch that is being gathered', async () => {
    const controller = new AbortController()
    const abort = () => {
      const call = infer({ signal: controller.signal })
      controller.abort('withdrawn')
      return call
    }
    expect(await keepsGoodOnesWell(bench, abort, true)).toBe('withdrawn')
  })
})

describe('a name the engine does not know', () => {
  const names: [what: string, name: unknown, received?: unknown][] = [
    ['of no model', 'three'],
    ["of an object's own making", '__proto__'],
    ['that is empty', ''],
    ['that is undefined', undefined],
    ['that is an object', {}, 'an instance of Object'],
  ]

  it.each(names)('is refused: one %s', async (_, name, received = name) => {
    const refusal: Refusal = { code: 'ERR_MODEL_NOT_FOUND', argument: 'name', expected: /'two'/, received }
    await refusedAmongGoodOnes(bench, () => bench.engine.infer(name as string, feeds), refusal)
  })

  it('cannot be unloaded either', async () => {
    expect(await rejectionOf(() => bench.engine.unload('three'))).toMatchObject({
      code: 'ERR_MODEL_NOT_FOUND',
      received: 'three',
    })
  })
})
