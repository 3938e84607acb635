import { run } from '../child.ts'
import { benchModel } from '../models.ts'
import type { IdleInput, IdleResult } from '../programs/idle.ts'
import { takeTurns } from '../rounds.ts'
import { executors } from '../side.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const settleSeconds = 10

/** An engine that nobody asks for anything: it has to cost nothing. */
export const idle: Trial = {
  describe:
    'timers, CPU and wake-ups of the threads of an engine whose three loaded models have nothing to do, beside an empty process',
  seconds: 10,
  async run({ seconds, rounds, smoke }) {
    const models = (['mlp', 'identity', 'image-identity'] as const).map((name) => benchModel(name))
    const measure = (side: IdleInput['side']) => () =>
      run<IdleResult>('programs/idle.ts', {
        side,
        models,
        settleSeconds: smoke ? 0.3 : settleSeconds,
        seconds,
      } satisfies IdleInput)
    const found = await takeTurns(rounds, {
      nothing: measure('nothing'),
      native: measure('native'),
      binding: measure('binding'),
    })

    const middle = (results: readonly IdleResult[], key: keyof IdleResult) =>
      median(results.map((result) => result[key]))
    const percent = (results: readonly IdleResult[]) => round(100 * middle(results, 'cpuShare'), 3)
    const row = (what: string, results: readonly IdleResult[]) => ({
      what,
      threads: middle(results, 'threads'),
      timers: middle(results, 'timers'),
      '% of a core': percent(results),
      'wake-ups a second': round(middle(results, 'wakeUpsPerSecond')),
    })
    return {
      ours: percent(found.native),
      plain: percent(found.nothing),
      unit: '% of a core',
      ratio: round(percent(found.native) / percent(found.nothing)),
      targets: [
        atMost(0, 'timers with native', middle(found.native, 'timers')),
        atMost(0.1, '% of a core with native', percent(found.native)),
        atMost(
          0,
          'wake-ups of its threads a second with native',
          round(middle(found.native, 'wakeUpsPerSecond')),
        ),
      ],
      rows: [
        row('a process without an engine', found.nothing),
        ...executors.map((side) => row(side, found[side])),
      ],
      settings: { models: 3, instancesEach: 2, idleBeforeSeconds: smoke ? 0.3 : settleSeconds },
      details: found,
    }
  },
}
