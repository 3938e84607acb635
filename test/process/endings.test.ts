import { describe, expect, it } from 'vitest'
import { loadBinding } from '../../src/native/addon.ts'
import { full } from '../support/full.ts'
import { endsEachTime, type Expected, inOneProcess, limitMs, runFixture, testTimeoutMs } from './child.ts'

// A thread that is ended inside ONNX Runtime takes the whole process along, by SIGABRT.
const endings: [scenario: string, expected: Expected][] = [
  ['process.exit', { code: 3 }],
  ['process.exit while a model is opened', { code: 3 }],
]
const nativeEndings: typeof endings = [
  ['uncaught exception', { code: 1, stderr: /Error: uncaught on purpose\n +at .*exit\.mjs/ }],
  ['SIGTERM with a handler that closes', { code: 0, answer: true }],
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
  const some = full || executor === 'native' ? [...endings, ...nativeEndings] : endings
  if (full) some.push(...variants)
  it.each(some)('ends with its own code and answer: %s', { timeout: testTimeoutMs }, (scenario, expected) =>
    endsEachTime('exit.mjs', scenario, expected, [], { ZEROHOP_EXECUTOR: executor }),
  )
})

it(
  'a process may end while ONNX Runtime is being loaded (ten times)',
  { timeout: testTimeoutMs },
  async () => {
    const run = () =>
      runFixture('exit.mjs', 'process.exit as a load begins', [], { ZEROHOP_EXECUTOR: 'native' })
    for (const ending of await Promise.all(Array.from({ length: 10 }, run)))
      expect(ending).toMatchObject({ code: 3, signal: null, stderr: '' })
  },
)

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
  // There is one warning for the process: those that go without come first.
  const endings: [scenario: string, answer: unknown][] = [
    ['never used', { ports: 0, warnings: [] }],
    ['closed, then dropped', { threads: 0, warnings: [] }],
    ['its model is held', { held: { threads: true, right: true, warnings: [] }, gone: true, warnings: once }],
    ['a request is in flight', { right: true, gone: true, warnings: once }],
    ['twenty engines', { right: true, gone: true, left: expect.toBeOneOf([0, 1]), warnings: once }],
  ]

  it.each(inOneProcess(endings))(
    'an engine that is not closed: it answers, its threads end, and there is a warning if it served: %s',
    { timeout: limitMs + 10_000 },
    async (scenarios, answer) => {
      const ending = await runFixture('dropped.mjs', scenarios, ['--expose-gc'])
      expect(ending).toMatchObject({ code: 0, signal: null, hung: false, answer })
    },
  )
})

describe('user thread', () => {
  const endings: [scenario: string, answer: unknown][] = [
    ['ends with its engine open', [true, 0]],
    ['calls process.exit in its thread mid-run', ['running', 4]],
    ['terminated, and another one started', [true, true]],
  ]
  const variants: typeof endings = [
    ['terminated while idle', true],
    ['closes its engine and ends', [true, 0]],
    ['two threads and the main thread', [true, true, true, true]],
  ]

  const longOperators: [scenario: string, expected: Expected][] = [
    ['terminated during one long operator', { answer: ['terminated'] }],
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
      const some = full || executor === 'native' ? [...endings, ...variants.slice(full ? 0 : 1)] : endings
      it.each(inOneProcess(some))(
        'leaves the process whole: %s',
        { timeout: testTimeoutMs },
        (scenarios, answer) =>
          endsEachTime('user-thread.mjs', scenarios, { answer }, [], { ZEROHOP_EXECUTOR: executor }),
      )
    },
  )
})

describe('functions', () => {
  const endings: [scenario: string, answer: unknown][] = [
    ['close', 42],
    ['an engine in a thread of the user that is terminated', 'terminated'],
    ['an idle engine with a function', 42],
  ]

  describe('a process with a function', () => {
    it.each(inOneProcess(endings))(
      'ends by itself with its answer, and no thread holds it: %s',
      { timeout: testTimeoutMs },
      (scenarios, answer) => endsEachTime('function.mjs', scenarios, { answer }),
    )

    const midRun: [scenario: string, expected: Expected][] = [
      ['process.exit while a function loops', { code: 3 }],
    ]
    if (full)
      midRun.push([
        'an uncaught exception while a function loops',
        { code: 1, stderr: /Error: uncaught on purpose/ },
      ])
    it.each(midRun)(
      'ends with its own code, and no thread holds it: %s',
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
