import { run } from '../child.ts'
import { benchModel } from '../models.ts'
import type { ClosedLoop, ClosedLoopResult } from '../programs/closed-loop.ts'
import { takeTurns } from '../rounds.ts'
import { round } from '../statistics.ts'
import type { Trial } from '../trial.ts'

/** Small requests from many callers: what batching is worth. */
export const throughput: Trial = {
  describe: 'MLP 64-256-256-10, requests/s at concurrency 1, 8, 64, 256 against plain session.run',
  seconds: 3,
  async run({ seconds, rounds, smoke }) {
    const model = benchModel('mlp')
    const settings = { maxBatchSize: 64, intraOpNumThreads: 1 }
    const measure = (extra: Partial<ClosedLoop>) =>
      run<ClosedLoopResult>('closed-loop.ts', { side: 'plain', model, concurrency: 256, warmupSeconds: smoke ? 0.2 : 1, seconds, ...extra })

    // The baseline gets the better of its own default and one thread.
    const [byDefault, oneThread] = [await measure({}), await measure({ intraOpNumThreads: 1 })]
    const plainSettings = oneThread.rowsPerSecond > byDefault.rowsPerSecond ? { intraOpNumThreads: 1 } : {}
    const rows = []
    for (const concurrency of smoke ? [256] : [1, 8, 64, 256]) {
      const { ours, plain } = await takeTurns(
        rounds,
        { ours: () => measure({ side: 'ours', concurrency, ...settings }), plain: () => measure({ concurrency, ...plainSettings }) },
        ({ rowsPerSecond }) => rowsPerSecond,
      )
      rows.push({ concurrency, 'plain /s': round(plain, 0), 'ours /s': round(ours, 0), ratio: round(ours / plain) })
    }
    const last = rows.at(-1)!
    return {
      ours: last['ours /s'],
      plain: last['plain /s'],
      unit: 'requests/s at concurrency 256',
      ratio: last.ratio,
      target: '>= 5 times plain at concurrency 256',
      met: last.ratio >= 5,
      rows,
      settings: { ours: settings, plain: plainSettings },
    }
  },
}
