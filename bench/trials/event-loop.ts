import { run } from '../child.ts'
import { benchModel } from '../models.ts'
import type { ClosedLoop, ClosedLoopResult } from '../programs/closed-loop.ts'
import { takeTurns } from '../rounds.ts'
import { round } from '../statistics.ts'
import type { Trial } from '../trial.ts'

const maxP99Ms = 10

/** What is left of the application's event loop while a heavy model is saturated. */
export const eventLoop: Trial = {
  describe: 'p99 delay of the event loop while ResNet-50 is saturated by 32 callers, against plain on the same thread',
  seconds: 10,
  async run({ seconds, rounds, smoke }) {
    const model = benchModel('resnet50')
    const measure = (extra: Partial<ClosedLoop>) =>
      run<ClosedLoopResult>('closed-loop.ts', { side: 'plain', model, concurrency: 32, warmupSeconds: smoke ? 0.5 : 2, seconds, ...extra })
    const { ours, plain } = await takeTurns(
      rounds,
      { ours: () => measure({ side: 'ours', maxBatchSize: 8 }), plain: () => measure({}) },
      ({ loopDelayP99Ms }) => loopDelayP99Ms,
    )
    return {
      ours: round(ours),
      plain: round(plain),
      unit: 'ms, p99 of the loop delay',
      ratio: round(ours / plain, 4),
      target: `p99 <= ${maxP99Ms} ms`,
      met: ours <= maxP99Ms,
      rows: [{ 'plain p99 ms': round(plain), 'ours p99 ms': round(ours) }],
      settings: { callers: 32, maxBatchSize: 8 },
    }
  },
}
