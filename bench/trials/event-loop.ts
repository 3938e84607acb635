import { closedLoops, rate } from '../closed-loops.ts'
import type { LoopDelay } from '../loop-delay.ts'
import { benchModel } from '../models.ts'
import type { ClosedLoopResult } from '../programs/closed-loop.ts'
import { takeTurns } from '../rounds.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const callers = 32
const maxBatchSize = 8

/** What is left of the application's event loop while a heavy model is saturated. */
export const eventLoop: Trial = {
  describe: 'p99 delay of the event loop while ResNet-50 is saturated by 32 callers, against plain on the same thread',
  seconds: 10,
  async run({ seconds, rounds, smoke }) {
    const model = benchModel(smoke ? 'mlp' : 'resnet50')
    const measure = closedLoops({ side: 'plain', model, concurrency: callers, warmupSeconds: Math.min(2, seconds / 2), seconds })
    const found = await takeTurns(rounds, () => measure(), () => measure({ side: 'ours', maxBatchSize }))

    const delay = (results: readonly ClosedLoopResult[], key: keyof LoopDelay) =>
      round(median(results.map(({ loopDelay }) => loopDelay[key])))
    const row = (what: string, results: readonly ClosedLoopResult[]) => ({
      what,
      'p50 ms': delay(results, 'p50Ms'),
      'p99 ms': delay(results, 'p99Ms'),
      'max ms': delay(results, 'maxMs'),
      'images/s': round(rate(results)),
    })
    const [plain, ours] = [delay(found.plain, 'p99Ms'), delay(found.ours, 'p99Ms')]
    return {
      ours,
      plain,
      unit: 'ms, p99 of the loop delay',
      ratio: round(ours / plain, 5),
      targets: [atMost(10, 'p99 of the loop delay, in ms', ours)],
      rows: [row('plain', found.plain), row('ours', found.ours)],
      settings: { callers, maxBatchSize, probe: 'lateness of a 5 ms timer, corrected for the looks a stall leaves out' },
      details: found,
    }
  },
}
