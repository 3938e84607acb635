import { describe, expect, it } from 'vitest'
import { loadBinding } from '../../src/native/addon.ts'
import { full } from '../support/full.ts'
import { endsEachTime, type Expected, limitMs, runFixture, testTimeoutMs } from './child.ts'

// A thread that is ended inside ONNX Runtime takes the whole process along, by SIGABRT.
const endings: [scenario: string, expected: Expected][] = [
  ['process.exit', { code: 3 }],
  ['uncaught exception', { code: 1, stderr: /Error: uncaught on purpose\n +at .*exit\.mjs/ }],
  ['SIGTERM with a handler that closes', { code: 0, answer: true }],
  ['process.exit while a model is opened', { code: 3 }],
]
const variants: typeof endings = [
  ['process.exit with more batches handed over', { code: 3 }],
  ['process.exit with two workers', { code: 3 }],
  ['unhandled rejection', { code: 1, stderr: /Error: unhandled on purpose\n +at .*exit\.mjs/ }],
  ['SIGTERM with a handler that exits', { code: 5 }],
  ['SIGTERM without a handler', { code: null, signal: 'SIGTERM' }],
  ['SIGINT without a handler', { code: null, signal: 'SIGINT' }],
  ['process.exit while the worker starts', { code: 3 }],
  ['process.exit while a model is opened beside another', { code: 3 }],
  ['process.exit while the engine closes', { code: 3 }],
  ['process.exit after close', { code: 3, answer: true }],
]

describe.each(['binding', 'native'])('a process that ends mid-run, with the executor %s', (executor) => {
  const some = full ? [...endings, ...variants] : endings
  it.each(some)('ends with its own code and answer: %s', { timeout: testTimeoutMs }, (scenario, expected) =>
    endsEachTime('exit.mjs', scenario, expected, [], { ZEROHOP_EXECUTOR: executor }),
  )
})

const longOperators = ['process.exit during one long operator']
if (full) longOperators.push('process.exit during one long operator of a warm-up')

it.skipIf(loadBinding().binding === null).each(longOperators)(
  'a process whose run of the addon does not stop at once ends without waiting for it: %s',
  { timeout: testTimeoutMs },
  (scenario) =>
    endsEachTime('exit.mjs', scenario, { code: 3, answer: 'listeners were called' }, [], {
      ZEROHOP_EXECUTOR: 'native',
    }),
)

describe('dropped', () => {
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
      { held: { threads: true, right: true, warnings: [] }, gone: true, warnings: once },
    ],
    [
      'answers what is in flight first',
      'a request is in flight',
      { right: true, gone: true, warnings: once },
    ],
    ['that never served goes without a word', 'never used', { ports: 0, warnings: [] }],
    ['is not warned of when it was closed', 'closed, then dropped', { threads: 0, warnings: [] }],
  ]

  it.each(endings)(
    'an engine that is dropped %s',
    { timeout: limitMs + 10_000 },
    async (_, scenario, answer) => {
      const ending = await runFixture('dropped.mjs', scenario, ['--expose-gc'])
      expect(ending).toMatchObject({ code: 0, signal: null, hung: false, answer })
      if (scenario === 'twenty engines')
        expect((ending.answer as { left: number }).left).toBeLessThanOrEqual(1)
    },
  )
})

describe('user thread', () => {
  const endings: [scenario: string, answer: unknown][] = [
    ['terminated while idle', true],
    ['ends with its engine open', [true, 0]],
    ['calls process.exit in its thread mid-run', ['running', 4]],
  ]
  const variants: typeof endings = [
    ['closes its engine and ends', [true, 0]],
    ['two threads and the main thread', [true, true, true, true]],
    ['terminated, and another one started', [true, true]],
  ]

  const longOperators: [scenario: string, expected: Expected][] = [
    ['terminated during one long operator', { answer: 'terminated' }],
    ['the main thread calls process.exit during one long operator', { code: 3 }],
  ]

  it.skipIf(loadBinding().binding === null).each(longOperators)(
    'an engine of the native executor in such a thread leaves the process whole: %s',
    { timeout: testTimeoutMs },
    (scenario, expected) =>
      endsEachTime('user-thread.mjs', scenario, expected, [], { ZEROHOP_EXECUTOR: 'native' }),
  )

  describe.each(['binding', 'native'])(
    'an engine in a thread of the application, with the executor %s',
    (executor) => {
      const some = full || executor === 'native' ? [...endings, ...variants] : endings
      it.each(some)('leaves the process whole: %s', { timeout: testTimeoutMs }, (scenario, answer) =>
        endsEachTime('user-thread.mjs', scenario, { answer }, [], { ZEROHOP_EXECUTOR: executor }),
      )
    },
  )
})

describe('functions', () => {
  const endings: [scenario: string, expected: Expected][] = [
    ['process.exit while a function loops', { code: 3 }],
    ['an uncaught exception while a function loops', { code: 1, stderr: /Error: uncaught on purpose/ }],
    ['an idle engine with a function', { code: 0, answer: 42 }],
    ['close', { code: 0, answer: 42 }],
    ['an engine in a thread of the user that is terminated', { code: 0, answer: 'terminated' }],
  ]

  describe('a process with a function', () => {
    it.each(endings)(
      'ends with its own code and answer, and no thread holds it: %s',
      { timeout: testTimeoutMs },
      (scenario, expected) => endsEachTime('function.mjs', scenario, expected),
    )
  })
})

const crashed = 'ERR_INSTANCE_CRASHED'

const scenarios: [scenario: string, answer: unknown][] = [
  ['the other instance serves', [crashed, [true, true], 'at once']],
  [
    'a model is given up while another of its batches runs',
    [Array(3).fill(crashed), 'failed', crashed, 'destroyed'],
  ],
  ['a model is unloaded while it is opened again', [crashed, true, 'unloaded', 1]],
  ['the engine is closed, and the next thread hangs over its start', [crashed, 'at once']],
]
// It takes as long as a worker waits before its fourth start; death.test.ts has the same of two models.
if (full) scenarios.push(['a model has become deadly to open', [crashed, crashed, 'failed', true]])

// At once: they wait for threads more than they work.
describe.concurrent('while a worker thread is replaced', () => {
  it.each(scenarios)('%s', { timeout: testTimeoutMs }, (scenario, answer) =>
    endsEachTime('restart.mjs', scenario, { answer }),
  )
})
