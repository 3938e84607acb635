import { describe, expect, it } from 'vitest'
import { endsEachTime, testTimeoutMs, waitsEachTime } from './child.ts'

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

const other: [scenario: string, answer: unknown][] = [
  ['one of two threads', ['ERR_INSTANCE_CRASHED', true, true]],
  ['a model that is warmed up', ['ERR_MODEL_LOAD', ['ready']]],
  ['a model that is opened', ['ERR_MODEL_LOAD', ['ready'], true]],
  ['an engine that is closed at once', ['ERR_INSTANCE_CRASHED', 'ERR_CLOSED']],
]

describe('a worker thread that dies', () => {
  it.each(oneDeath)(
    'is replaced, and only what was in flight is lost: %s',
    { timeout: testTimeoutMs },
    (scenario, answer) => endsEachTime('death.mjs', scenario, { answer }),
  )

  it.each(other)('settles what depends on it: %s', { timeout: testTimeoutMs }, (scenario, answer) =>
    endsEachTime('death.mjs', scenario, { answer }),
  )
})

// At once: they wait for threads more than they work.
describe.concurrent('worker threads that die again and again', () => {
  const crashed = 'ERR_INSTANCE_CRASHED'

  it('bring the model to failed while another one keeps serving', { timeout: testTimeoutMs }, () =>
    waitsEachTime('death.mjs', 'repeated deaths of one model', {
      answer: [
        [crashed, true, crashed, true, crashed, true, 'ERR_MODEL_NOT_READY'],
        ['failed', 'its worker died 3 times in a row, last of: poisoned: throws', 'ready'],
        true,
      ],
    }),
  )

  it('let the failed model be loaded again', { timeout: testTimeoutMs }, () =>
    waitsEachTime('death.mjs', 'repeated deaths, and the failed model is loaded again', {
      answer: ['failed', true],
    }),
  )

  it(
    'over opening a model again bring that model to failed, and others go on',
    { timeout: testTimeoutMs },
    () =>
      waitsEachTime('death.mjs', 'a model that is opened again', {
        answer: [crashed, crashed, 'failed', 'the worker thread ended with exit code 7', 'ready', true],
      }),
  )

  it('over one of two instances cost that one, with its memory', { timeout: testTimeoutMs }, () =>
    waitsEachTime('death.mjs', 'one of two instances, opened again', {
      answer: [crashed, true, 'ready', true],
    }),
  )

  it(
    'over one of two instances leave it to the other to find out whether requests may be joined',
    { timeout: testTimeoutMs },
    () =>
      waitsEachTime(
        'death.mjs',
        'one of two instances of a model whose requests are to decide whether they are joined',
        {
          answer: ['unknown', crashed, 'independent'],
        },
      ),
  )

  it('are given up when no thread comes up any more', { timeout: testTimeoutMs }, () =>
    waitsEachTime('death.mjs', 'no thread that starts again', {
      answer: [crashed, crashed, 'failed', 'died at start on purpose', 'ERR_MODEL_LOAD', true],
    }),
  )

  it('fail the load at once when not even the first comes up', { timeout: testTimeoutMs }, () => {
    const message =
      "workers of model 'small': expected a worker thread that keeps running, received 'died at start on purpose'. Load it again once the cause is removed: that starts a new thread"
    return waitsEachTime('death.mjs', 'no thread that starts at all', {
      answer: ['ERR_MODEL_LOAD', message, 'failed', true],
    })
  })
})
