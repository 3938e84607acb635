import { closedLoops, rate, rateRatio } from '../closed-loops.ts'
import { benchModel } from '../models.ts'
import type { ClosedLoop } from '../programs/closed-loop.ts'
import { takeTurns } from '../rounds.ts'
import { shown } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atLeast } from '../targets.ts'
import type { Trial } from '../trial.ts'

const maxBatchSize = 64

/** Small requests from many callers: what batching is worth. */
export const throughput: Trial = {
  describe:
    'MLP 64-256-256-10, requests/s at concurrency 1, 8, 64, 256 both executors against plain session.run',
  seconds: 3,
  async run({ seconds, rounds, smoke }) {
    const model = benchModel('mlp')
    const measure = closedLoops({
      side: 'plain',
      model,
      concurrency: 256,
      warmupSeconds: Math.min(1, seconds / 2),
      seconds,
    })

    // Each side gets the better of its default and one thread.
    const betterThreads = async (side: Partial<ClosedLoop>) => {
      const found = await takeTurns(rounds, {
        byDefault: () => measure(side),
        one: () => measure({ ...side, intraOpNumThreads: 1 }),
      })
      return rateRatio(found.byDefault, found.one) >= 1 ? side : { ...side, intraOpNumThreads: 1 }
    }
    const settings = {
      plain: await betterThreads({}),
      native: await betterThreads({ side: 'native', maxBatchSize }),
      binding: await betterThreads({ side: 'binding', maxBatchSize }),
    }

    const rows = []
    const details: Record<string, unknown> = {}
    for (const concurrency of smoke ? [256] : [1, 8, 64, 256]) {
      const found = await takeTurns(rounds, {
        plain: () => measure({ concurrency, ...settings.plain }),
        native: () => measure({ concurrency, ...settings.native }),
        binding: () => measure({ concurrency, ...settings.binding }),
      })
      details[concurrency] = found
      rows.push({
        concurrency,
        'plain /s': round(rate(found.plain), 0),
        'native /s': round(rate(found.native), 0),
        'native to plain': round(rateRatio(found.native, found.plain)),
        'native mean batch': round(median(found.native.map(({ meanBatchRows }) => meanBatchRows)), 1),
        'binding /s': round(rate(found.binding), 0),
        'binding to plain': round(rateRatio(found.binding, found.plain)),
      })
    }
    const last = rows.at(-1)!
    return {
      ours: last['native /s'],
      plain: last['plain /s'],
      unit: 'requests/s at concurrency 256',
      ratio: last['native to plain'],
      targets: [atLeast(8.5, 'native to plain at concurrency 256', last['native to plain'])],
      rows,
      settings,
      numbers: [
        {
          question: `small MLP, ${last.concurrency} concurrent callers`,
          plain: `${shown(last['plain /s'])} /s`,
          zerohop: `${shown(last['native /s'])} /s`,
          note: `${last['native to plain']} x`,
        },
      ],
      details,
    }
  },
}
