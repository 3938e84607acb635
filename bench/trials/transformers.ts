import { small, tiny } from '../../test/models/encoder.ts'
import { bert } from '../../test/models/pipelines.ts'
import { run } from '../child.ts'
import type { TransformersInput, TransformersResult } from '../programs/transformers.ts'
import { takeTurns } from '../rounds.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const load = { callers: 64, lengths: { median: 24, spread: 0.6, most: 256 } }
const sides = {
  plain: 'plain',
  'equal lengths only': false,
  'to the longest of a batch': 'longest',
  'to the next length': 'default',
} as const

/** A pipeline of transformers.js as it is, and accelerated. */
export const transformers: Trial = {
  describe:
    'sentences embedded by a pipeline of transformers.js (BERT, the size of MiniLM), for 64 callers: as it is, and accelerated',
  seconds: 8,
  async run({ seconds, rounds, smoke }) {
    const folder = bert('feature-extraction', smoke ? tiny : small)
    const measure = (padding: TransformersInput['padding']) => () =>
      run<TransformersResult>('programs/transformers.ts', {
        ...load,
        folder,
        padding,
        seconds,
        warmupSeconds: smoke ? 0.3 : 2,
      } satisfies TransformersInput)
    const found = await takeTurns(
      rounds,
      Object.fromEntries(Object.entries(sides).map(([side, padding]) => [side, measure(padding)])) as Record<
        keyof typeof sides,
        () => Promise<TransformersResult>
      >,
    )
    const middle = (side: keyof typeof sides, figure: (result: TransformersResult) => number) =>
      median(found[side].map(figure))
    const rows = (Object.keys(sides) as (keyof typeof sides)[]).map((side) => ({
      pipeline: side,
      'texts/s': round(
        middle(side, ({ textsPerSecond }) => textsPerSecond),
        0,
      ),
      'rows per run': round(
        middle(side, ({ meanBatchRows }) => meanBatchRows),
        1,
      ),
      'padding waste': round(middle(side, ({ waste }) => waste)),
      'CPU ms per text': round(middle(side, ({ cpuMsPerText }) => cpuMsPerText)),
      'event loop p99 ms': round(
        middle(side, ({ loopDelay }) => loopDelay.p99Ms),
        1,
      ),
      'largest difference': Number(
        Math.max(...found[side].map(({ largestDifference }) => largestDifference)).toPrecision(2),
      ),
    }))
    const [plain, ours] = [rows[0]!, rows.at(-1)!]
    const ratio = round(ours['texts/s'] / plain['texts/s'])
    return {
      ours: ours['texts/s'],
      plain: plain['texts/s'],
      unit: `texts/s of ${load.callers} callers`,
      ratio,
      targets: [
        atLeast(1, 'texts/s, accelerated to plain', ratio),
        atMost(
          1e-4,
          'difference from the answers of the plain pipeline',
          Math.max(...rows.map((row) => row['largest difference'])),
        ),
      ],
      rows,
      settings: load,
      details: found,
    }
  },
}
