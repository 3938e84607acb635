import { availableParallelism } from 'node:os'
import { closedLoops, rate, rateRatio } from '../closed-loops.ts'
import { benchModel } from '../models.ts'
import { takeTurns } from '../rounds.ts'
import { shown } from '../shown.ts'
import { executors, type OurSide } from '../side.ts'
import { round } from '../statistics.ts'
import { atLeast } from '../targets.ts'
import type { Trial } from '../trial.ts'

const callers = 32
const maxBatchSize = 8

/** A heavy model with more work than it can do: nothing may be lost on the way to ONNX Runtime. */
export const saturation: Trial = {
  describe:
    'ResNet-50, images/s with 32 callers, both executors against the best of plain ONNX Runtime over batch and threads',
  seconds: 8,
  async run({ seconds, rounds, smoke }) {
    const model = benchModel(smoke ? 'mlp' : 'resnet50')
    const measure = closedLoops({
      side: 'plain',
      model,
      concurrency: 1,
      warmupSeconds: Math.min(2, seconds / 2),
      seconds,
    })

    const sweep = []
    for (const batch of smoke ? [4] : [1, 4, 8, 16]) {
      for (const intraOpNumThreads of new Set(smoke ? [1] : [1, availableParallelism()])) {
        const settings = { rows: batch, intraOpNumThreads }
        sweep.push({ settings, found: await measure({ ...settings, seconds: Math.min(seconds, 4) }) })
      }
    }
    const best = sweep.reduce((a, b) => (b.found.rowsPerSecond > a.found.rowsPerSecond ? b : a)).settings
    const ours = (side: OurSide) => () => measure({ side, concurrency: callers, maxBatchSize })
    const found = await takeTurns(rounds, {
      plain: () => measure(best),
      native: ours('native'),
      binding: ours('binding'),
    })
    const plain = rate(found.plain)
    const ratio = round(rateRatio(found.native, found.plain), 3)
    const plainRow = ({ rows, intraOpNumThreads }: typeof best, perSecond: number, note: string) => ({
      what: `plain, batch ${rows}, ${intraOpNumThreads} threads${note}`,
      'images/s': round(perSecond),
      'to the best of plain': round(perSecond / plain, 3),
    })
    return {
      ours: round(rate(found.native)),
      plain: round(plain),
      unit: 'images/s',
      ratio,
      targets: [atLeast(0.98, 'native to the best of plain', ratio)],
      numbers: [
        {
          question: 'ResNet-50 saturated, against the best of a sweep',
          plain: `${shown(plain)} images/s`,
          zerohop: `${shown(rate(found.native))} images/s`,
          note: `${ratio} x`,
        },
      ],
      rows: [
        ...sweep.map(({ settings, found }) => plainRow(settings, found.rowsPerSecond, ' (sweep)')),
        plainRow(best, plain, ''),
        ...executors.map((side) => ({
          what: `${side}, ${callers} callers, maxBatchSize ${maxBatchSize}`,
          'images/s': round(rate(found[side])),
          'to the best of plain': round(rateRatio(found[side], found.plain), 3),
        })),
      ],
      settings: { ours: { callers, maxBatchSize }, plain: best },
      details: found,
    }
  },
}
