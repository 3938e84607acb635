import { closedLoops, rate } from '../closed-loops.ts'
import { benchModel } from '../models.ts'
import type { ClosedLoop } from '../programs/closed-loop.ts'
import { takeTurns } from '../rounds.ts'
import { median, round } from '../statistics.ts'
import { atLeast } from '../targets.ts'
import type { Trial } from '../trial.ts'

const maxBatchSize = 64

/** Small requests from many callers: what batching is worth. */
export const throughput: Trial = {
  describe: 'MLP 64-256-256-10, requests/s at concurrency 1, 8, 64, 256 against plain session.run',
  seconds: 3,
  async run({ seconds, rounds, smoke }) {
    const model = benchModel('mlp')
    const measure = closedLoops({ side: 'plain', model, concurrency: 256, warmupSeconds: Math.min(1, seconds / 2), seconds })

    // Either side gets the better of its default and one thread.
    const betterThreads = async (side: Partial<ClosedLoop>) => {
      const byDefault = await takeTurns(rounds, () => measure(side), () => measure({ ...side, intraOpNumThreads: 1 }))
      return rate(byDefault.plain) >= rate(byDefault.ours) ? {} : { intraOpNumThreads: 1 }
    }
    const ourSide = { side: 'ours', maxBatchSize } as const
    const settings = { ours: { maxBatchSize, ...(await betterThreads(ourSide)) }, plain: await betterThreads({}) }

    const rows = []
    const details: Record<string, unknown> = {}
    for (const concurrency of smoke ? [256] : [1, 8, 64, 256]) {
      const found = await takeTurns(
        rounds,
        () => measure({ concurrency, ...settings.plain }),
        () => measure({ ...ourSide, concurrency, ...settings.ours }),
      )
      details[concurrency] = found
      rows.push({
        concurrency,
        'plain /s': round(rate(found.plain), 0),
        'ours /s': round(rate(found.ours), 0),
        ratio: round(rate(found.ours) / rate(found.plain)),
        'our mean batch': round(median(found.ours.map(({ meanBatchRows }) => meanBatchRows)), 1),
      })
    }
    const last = rows.at(-1)!
    return {
      ours: last['ours /s'],
      plain: last['plain /s'],
      unit: 'requests/s at concurrency 256',
      ratio: last.ratio,
      targets: [atLeast(5, 'ours to plain at concurrency 256', last.ratio)],
      rows,
      settings,
      details,
    }
  },
}
