import { describe, expect, it, onTestFinished } from 'vitest'
import type { DynamicBatchingConfig, Feeds, InferOptions } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { load, sharedEngine } from '../support/open.ts'
import { outcomeOf } from './outcome.ts'

const engine = sharedEngine()
const row: Feeds = { x: new Float32Array(4) }

interface Warning extends Error {
  readonly code?: string
}

/** The warnings of requests with these options to one model, which are all answered. */
async function warningsOf(
  dynamicBatching: DynamicBatchingConfig | false,
  ...requests: InferOptions[]
): Promise<Warning[]> {
  const seen: Warning[] = []
  const note = (warning: Warning) => void seen.push(warning)
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  const model = await load(engine, small.identity('float32'), { dynamicBatching })
  for (const options of requests) expect(await outcomeOf(model.infer(row, options))).toBe('answered')
  await new Promise(setImmediate)
  return seen
}

const minute = 60_000

describe('an option that does not count is told of once per model', () => {
  type Case = [
    what: string,
    dynamicBatching: DynamicBatchingConfig | false,
    options: InferOptions,
    code: string,
    message: RegExp,
  ]
  const cases: Case[] = [
    [
      'a priority above the levels',
      { priorityLevels: 2 },
      { priority: 3 },
      'ZEROHOP_PRIORITY_IGNORED',
      /^options\.priority of a request to model '.*' is ignored: expected 0 to 2 \(priorityLevels\), received 3; the request has the default level 2\. Load/,
    ],
    [
      'a priority without levels',
      {},
      { priority: 1 },
      'ZEROHOP_PRIORITY_IGNORED',
      /expected none, because the model has no priorityLevels, received 1\. Load/,
    ],
    [
      'a priority of a model that does not batch',
      false,
      { priority: 1 },
      'ZEROHOP_PRIORITY_IGNORED',
      /no priorityLevels, received 1/,
    ],
    [
      'a timeout where the default may not be overridden',
      { defaultQueuePolicy: { defaultTimeoutMs: minute } },
      { timeoutMs: 5000 },
      'ZEROHOP_TIMEOUT_IGNORED',
      /expected none, because the queue policy has a defaultTimeoutMs, received 5000; the request has the model's 60000 ms\. .*allowTimeoutOverride: true/,
    ],
    [
      'a timeout longer than the default',
      { defaultQueuePolicy: { defaultTimeoutMs: minute, allowTimeoutOverride: true } },
      { timeoutMs: 2 * minute },
      'ZEROHOP_TIMEOUT_IGNORED',
      /expected at most 60000 \(defaultTimeoutMs\), received 120000; .* longer defaultTimeoutMs, or leave/,
    ],
  ]

  it.each(cases)('%s', async (_, dynamicBatching, options, code, message) => {
    const seen = await warningsOf(dynamicBatching, options, options, { ...options, requestId: 'again' })
    expect(seen).toMatchObject([{ name: 'ZerohopWarning', code, message: expect.stringMatching(message) }])
    expect(await warningsOf(dynamicBatching, options)).toHaveLength(1) // of the next model
  })

  it('each kind by itself', async () => {
    const seen = await warningsOf(
      { defaultQueuePolicy: { defaultTimeoutMs: minute } },
      { timeoutMs: 5, priority: 7 },
      { priority: 8 },
    )
    expect(seen.map(({ code }) => code)).toEqual(['ZEROHOP_PRIORITY_IGNORED', 'ZEROHOP_TIMEOUT_IGNORED'])
  })
})

describe('an option that counts is not told of', () => {
  it.each<[string, DynamicBatchingConfig, InferOptions]>([
    ['a level', { priorityLevels: 2 }, { priority: 2 }],
    ['level 0, which is the default one', {}, { priority: 0 }],
    ['a timeout without a default', {}, { timeoutMs: minute }],
    [
      'a shorter timeout',
      { defaultQueuePolicy: { defaultTimeoutMs: minute, allowTimeoutOverride: true } },
      { timeoutMs: 5000 },
    ],
    [
      'the default timeout itself',
      { defaultQueuePolicy: { defaultTimeoutMs: minute } },
      { timeoutMs: minute },
    ],
  ])('%s', async (_, dynamicBatching, options) => {
    expect(await warningsOf(dynamicBatching, options)).toEqual([])
  })
})
