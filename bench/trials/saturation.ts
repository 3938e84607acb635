import { availableParallelism } from 'node:os'
import { run } from '../child.ts'
import { benchModel } from '../models.ts'
import type { ClosedLoop, ClosedLoopResult } from '../programs/closed-loop.ts'
import { takeTurns } from '../rounds.ts'
import { round } from '../statistics.ts'
import type { Trial } from '../trial.ts'

const callers = 32
const maxBatchSize = 8

/** A heavy model with more work than it can do: nothing may be lost on the way to ONNX Runtime. */
export const saturation: Trial = {
  describe: 'ResNet-50, images/s with 32 callers, against the best of plain ONNX Runtime over batch and threads',
  seconds: 8,
  async run({ seconds, rounds, smoke }) {
    const model = benchModel('resnet50')
    const measure = (extra: Partial<ClosedLoop>) =>
      run<ClosedLoopResult>('closed-loop.ts', { side: 'plain', model, concurrency: 1, warmupSeconds: smoke ? 0.5 : 2, seconds, ...extra })

    const rows = []
    let best = { rows: 1, intraOpNumThreads: 1 }
    let bestPerSecond = 0
    for (const batch of smoke ? [4] : [1, 4, 8, 16]) {
      for (const intraOpNumThreads of new Set(smoke ? [availableParallelism()] : [1, availableParallelism()])) {
        const { rowsPerSecond } = await measure({ rows: batch, intraOpNumThreads, seconds: Math.min(seconds, 3) })
        rows.push({ what: `plain, batch ${batch}, ${intraOpNumThreads} threads (sweep)`, 'images/s': round(rowsPerSecond) })
        if (rowsPerSecond <= bestPerSecond) continue
        bestPerSecond = rowsPerSecond
        best = { rows: batch, intraOpNumThreads }
      }
    }
    const { ours, plain } = await takeTurns(
      rounds,
      { ours: () => measure({ side: 'ours', concurrency: callers, maxBatchSize }), plain: () => measure(best) },
      ({ rowsPerSecond }) => rowsPerSecond,
    )
    rows.push({ what: `plain, batch ${best.rows}, ${best.intraOpNumThreads} threads (best)`, 'images/s': round(plain) })
    rows.push({ what: `ours, ${callers} callers, maxBatchSize ${maxBatchSize}`, 'images/s': round(ours) })
    return {
      ours: round(ours),
      plain: round(plain),
      unit: 'images/s',
      ratio: round(ours / plain, 3),
      target: '>= 0.97 of the best plain configuration',
      met: ours / plain >= 0.97,
      rows,
      settings: { ours: { callers, maxBatchSize }, plain: best },
    }
  },
}
