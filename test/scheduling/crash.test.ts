import { describe, it } from 'vitest'
import { endsEachTime, inOneProcess, testTimeoutMs } from '../process/child.ts'

const crashed = 'ERR_INSTANCE_CRASHED'

/** 2 is the answer to a request that was run twice. */
const batches: [scenario: string, answer: unknown][] = [
  [
    'one deadly row',
    {
      outcomes: [2, 2, 2, crashed, 2, 2, 2, 2],
      after: [1],
      rejections: [['crashed', 1]],
      reruns: 8,
      state: 'ready',
    },
  ],
  [
    'one deadly row, without the option',
    {
      outcomes: Array(8).fill(crashed),
      after: [1],
      rejections: [['crashed', 8]],
      reruns: 0,
      state: 'ready',
    },
  ],
  [
    'two deadly rows',
    {
      outcomes: [2, crashed, 2, 2, crashed, 2],
      after: [1],
      rejections: [['crashed', 2]],
      reruns: 6,
      state: 'ready',
    },
  ],
  // Which is tried once more.
  [
    'a deadly row by itself',
    {
      outcomes: [crashed],
      after: [1],
      rejections: [['crashed', 1]],
      reruns: 1,
      state: 'ready',
    },
  ],
  // They had not started.
  ['batches behind it', [2, crashed, 1, 1, 1, 1]],
  ['another model on its thread', [crashed, 1, 1]],
  [
    'in order',
    [
      [0, 2],
      [1, 2],
      [2, crashed],
      [3, 2],
      [4, 2],
      [5, 2],
    ],
  ],
]

const waiting: typeof batches = [
  ['withdrawn before they were run again', [Array(4).fill('withdrawn'), 0]],
  ['closed before they were run again', [[2, 2, crashed, 2], 'closed']],
  ['dropped before they were run again', [Array(4).fill('ERR_CLOSED'), [['closed', 4]]]],
]

describe('a batch whose worker dies, with rerunAfterCrash', () => {
  it.each(inOneProcess(batches))(
    'rejects only the request that killed it: %s',
    { timeout: testTimeoutMs },
    (scenarios, answer) => endsEachTime('../../scheduling/fixtures/crash.mjs', scenarios, { answer }),
  )

  it.each(inOneProcess(waiting))(
    'has its requests settled while they wait to be run again: %s',
    { timeout: testTimeoutMs },
    (scenarios, answer) => endsEachTime('../../scheduling/fixtures/crash.mjs', scenarios, { answer }),
  )
})
