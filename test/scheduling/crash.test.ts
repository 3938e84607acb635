import { describe, it } from 'vitest'
import { endsEachTime, testTimeoutMs } from '../process/child.ts'

const crashed = 'ERR_INSTANCE_CRASHED'

/** Runs a scenario of the fixture, in which 2 is the answer to a request that was run twice. */
const ends = (scenario: string, answer: unknown) =>
  endsEachTime('../../scheduling/fixtures/crash.mjs', scenario, { answer })

describe('a batch whose worker dies, with rerunAfterCrash', { timeout: testTimeoutMs }, () => {
  it('is run again one by one, and only the culprit is lost', () =>
    ends('one deadly row', {
      outcomes: [2, 2, 2, crashed, 2, 2, 2, 2],
      after: [1],
      rejections: [['crashed', 1]],
      reruns: 8,
      state: 'ready',
    }))

  it('is lost as a whole without the option', () =>
    ends('one deadly row, without the option', {
      outcomes: Array(8).fill(crashed),
      after: [1],
      rejections: [['crashed', 8]],
      reruns: 0,
      state: 'ready',
    }))

  it('may have two culprits', () =>
    ends('two deadly rows', {
      outcomes: [2, crashed, 2, 2, crashed, 2],
      after: [1],
      rejections: [['crashed', 2]],
      reruns: 6,
      state: 'ready',
    }))

  it('may be a single request, which is tried once more', () =>
    ends('a deadly row by itself', {
      outcomes: [crashed],
      after: [1],
      rejections: [['crashed', 1]],
      reruns: 1,
      state: 'ready',
    }))

  it('costs what was handed over behind it nothing: that had not started', () =>
    ends('batches behind it', [2, crashed, 1, 1, 1, 1]))

  it('costs the batches of other models on its thread nothing', () =>
    ends('another model on its thread', [crashed, 1, 1]))

  it('is answered in its order where that is asked for', () =>
    ends('in order', [
      [0, 2],
      [1, 2],
      [2, crashed],
      [3, 2],
      [4, 2],
      [5, 2],
    ]))
})

describe('requests that wait to be run again', { timeout: testTimeoutMs }, () => {
  it('can be withdrawn, all of them, and the engine closes', () =>
    ends('withdrawn before they were run again', [Array(4).fill('withdrawn'), 0]))

  it('are still answered when the engine is closed', () =>
    ends('closed before they were run again', [[2, 2, crashed, 2], 'closed']))

  it('are rejected when the engine is destroyed', () =>
    ends('dropped before they were run again', [Array(4).fill('ERR_CLOSED'), [['closed', 4]]]))
})
