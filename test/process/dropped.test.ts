import { expect, it } from 'vitest'
import { limitMs, runFixture } from './child.ts'

const once = ['ZEROHOP_ENGINE_DROPPED']

const endings: [behaviour: string, scenario: string, answer: unknown][] = [
  [
    'gives its threads back, with one warning for the process',
    'twenty engines',
    { right: true, gone: true, left: expect.any(Number), warnings: once },
  ],
  [
    'stays usable while one of its models is held',
    'its model is held',
    { held: { threads: 1, right: true, warnings: [] }, gone: true, warnings: once },
  ],
  ['answers what is in flight first', 'a request is in flight', { right: true, gone: true, warnings: once }],
  ['that never served goes without a word', 'never used', { ports: 0, warnings: [] }],
  ['is not warned of when it was closed', 'closed, then dropped', { threads: 0, warnings: [] }],
]

it.each(endings)(
  'an engine that is dropped %s',
  { timeout: limitMs + 10_000 },
  async (_, scenario, answer) => {
    const ending = await runFixture('dropped.mjs', scenario, ['--expose-gc'])
    expect(ending).toMatchObject({ code: 0, signal: null, hung: false, answer })
    if (scenario === 'twenty engines') expect((ending.answer as { left: number }).left).toBeLessThanOrEqual(1)
  },
)
