import { run } from '../child.ts'
import { closedLoops, rate } from '../closed-loops.ts'
import type { LoopDelay } from '../loop-delay.ts'
import { benchModel } from '../models.ts'
import type { ClosedLoopResult } from '../programs/closed-loop.ts'
import { takeTurns } from '../rounds.ts'
import { shown } from '../shown.ts'
import { executors, type OurSide } from '../side.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const callers = 32
const maxBatchSize = 8

/** What is left of the application's event loop while a heavy model is saturated. */
export const eventLoop: Trial = {
  describe:
    'p99 delay of the event loop while ResNet-50 is saturated by 32 callers, both executors against plain on the same thread',
  seconds: 10,
  async run({ seconds, rounds, smoke }) {
    const model = benchModel(smoke ? 'mlp' : 'resnet50')
    const measure = closedLoops({
      side: 'plain',
      model,
      concurrency: callers,
      warmupSeconds: Math.min(2, seconds / 2),
      seconds,
    })
    const idle: LoopDelay[] = []
    const besideIdle = (side: OurSide) => async () => {
      const [result, delay] = await Promise.all([
        measure({ side, maxBatchSize }),
        run<LoopDelay>('programs/idle-loop.ts', { seconds }),
      ])
      idle.push(delay)
      return result
    }
    const found = await takeTurns(rounds, {
      plain: () => measure(),
      native: besideIdle('native'),
      binding: besideIdle('binding'),
    })

    const delaysOf = (results: readonly ClosedLoopResult[]) => results.map(({ loopDelay }) => loopDelay)
    const middle = (delays: readonly LoopDelay[], key: keyof LoopDelay) =>
      round(median(delays.map((delay) => delay[key])))
    const row = (what: string, delays: readonly LoopDelay[], perSecond: number | string) => ({
      what,
      'p50 ms': middle(delays, 'p50Ms'),
      'p99 ms': middle(delays, 'p99Ms'),
      'max ms': middle(delays, 'maxMs'),
      'images/s': perSecond,
    })
    const [plain, ours] = [middle(delaysOf(found.plain), 'p99Ms'), middle(delaysOf(found.native), 'p99Ms')]
    return {
      ours,
      plain,
      unit: 'ms, p99 of the loop delay',
      ratio: round(ours / plain, 5),
      targets: [atMost(5, 'p99 of the loop delay with native, in ms', ours)],
      numbers: [
        {
          question: 'p99 delay of the event loop while ResNet-50 is saturated',
          plain: `${shown(plain)} ms`,
          zerohop: `${shown(ours)} ms`,
          note: `an idle process beside it: ${shown(middle(idle, 'p99Ms'))} ms`,
        },
      ],
      rows: [
        row('plain', delaysOf(found.plain), round(rate(found.plain))),
        ...executors.map((side) => row(side, delaysOf(found[side]), round(rate(found[side])))),
        row('an idle process beside these', idle, ''),
      ],
      settings: {
        callers,
        maxBatchSize,
        probe: 'lateness of a 5 ms timer, corrected for the looks a stall leaves out',
      },
      details: { ...found, idle },
    }
  },
}
