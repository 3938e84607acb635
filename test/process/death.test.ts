import { describe, expect, it } from 'vitest'
import { endsEachTime, inOneProcess, testTimeoutMs, waitsEachTime } from './child.ts'

const midBatch = (reason: unknown) => ({
  error: ['ERR_INSTANCE_CRASHED', reason],
  inTime: true,
  // One request had been handed ahead behind the deadly one, and had not started; the others were still in the queue.
  others: [true, true, true, true],
  counts: [4, 1, 0],
  state: 'ready',
})

const oneDeath: [scenario: string, answer: unknown][] = [
  ['an exception', midBatch('poisoned: throws')],
  ['an unhandled rejection', midBatch('poisoned: rejects')],
  ['process.exit in the thread', midBatch('the worker thread ended with exit code 7')],
  ['its heap limit', midBatch(expect.stringContaining('memory limit'))],
  ['an exception between two batches', [true, true, true]],
  ['an exception while idle', [true, true]],
]

const notStarted =
  "workers of model 'small': expected a worker thread that keeps running, received 'died at start on purpose'. Load it again once the cause is removed: that starts a new thread"

const other: [scenario: string, answer: unknown][] = [
  ['one of two threads', ['ERR_INSTANCE_CRASHED', true, true]],
  ['a model that is warmed up', ['ERR_MODEL_LOAD', ['ready']]],
  ['a model that is opened', ['ERR_MODEL_LOAD', ['ready'], true]],
  ['no thread that starts at all', ['ERR_MODEL_LOAD', notStarted, 'failed', true]],
  ['an engine that is closed at once', ['ERR_INSTANCE_CRASHED', 'ERR_CLOSED']],
]

describe('a worker thread that dies', () => {
  it.each(inOneProcess(oneDeath))(
    'is replaced, and only what was in flight is lost: %s',
    { timeout: testTimeoutMs },
    (scenario, answer) => endsEachTime('death.mjs', scenario, { answer }),
  )

  it.each(inOneProcess(other))(
    'settles what depends on it: %s',
    { timeout: testTimeoutMs },
    (scenario, answer) => endsEachTime('death.mjs', scenario, { answer }),
  )
})

// At once: they wait for threads more than they work.
describe.concurrent('worker threads that die again and again', () => {
  const crashed = 'ERR_INSTANCE_CRASHED'

  it(
    'bring the model to failed, which may be loaded again, while another one keeps serving',
    { timeout: testTimeoutMs },
    () =>
      waitsEachTime('death.mjs', 'repeated deaths of one model', {
        answer: [
          [
            [crashed, true, crashed, true, crashed, true, 'ERR_MODEL_NOT_READY'],
            ['failed', 'its worker died 3 times in a row, last of: poisoned: throws', 'ready'],
            [true, true],
          ],
        ],
      }),
  )

  it(
    'over opening a model again bring that model to failed, and others go on',
    { timeout: testTimeoutMs },
    () =>
      waitsEachTime('death.mjs', 'a model that is opened again', {
        answer: [[crashed, crashed, 'failed', 'the worker thread ended with exit code 7', 'ready', true]],
      }),
  )

  it(
    'over one of two instances cost that one, with its memory, and the other finds out whether requests may be joined',
    { timeout: testTimeoutMs },
    () =>
      waitsEachTime('death.mjs', 'one of two instances, opened again', {
        answer: [[crashed, true, 'ready', 'unknown', 'independent']],
      }),
  )

  it('are given up when no thread comes up any more', { timeout: testTimeoutMs }, () =>
    waitsEachTime('death.mjs', 'no thread that starts again', {
      answer: [[crashed, crashed, 'failed', 'died at start on purpose', 'ERR_MODEL_LOAD', true]],
    }),
  )
})
