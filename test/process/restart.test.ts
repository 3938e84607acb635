import { describe, it } from 'vitest'
import { endsEachTime, testTimeoutMs } from './child.ts'

const crashed = 'ERR_INSTANCE_CRASHED'

const scenarios: [scenario: string, answer: unknown][] = [
  ['the other instance serves', [crashed, [true, true], 'at once']],
  [
    'a model is given up while another of its batches runs',
    [Array(3).fill(crashed), 'failed', crashed, 'destroyed'],
  ],
  ['a model is unloaded while it is opened again', [crashed, true, 'unloaded', 1]],
  ['the engine is closed, and the next thread hangs over its start', [crashed, 'at once']],
  ['a model has become deadly to open', [crashed, crashed, 'failed', true]],
]

describe('while a worker thread is replaced', () => {
  it.each(scenarios)('%s', { timeout: testTimeoutMs }, (scenario, answer) =>
    endsEachTime('restart.mjs', scenario, { answer }),
  )
})
