import { run } from '../child.ts'
import { positionMlp } from '../models.ts'
import type { MixedLengthsInput, MixedLengthsResult } from '../programs/mixed-lengths.ts'
import { takeTurns } from '../rounds.ts'
import { shown } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const load = {
  maxBatchSize: 32,
  sizes: [32, 64, 128, 160],
  humps: [
    { mean: 24, deviation: 8 },
    { mean: 120, deviation: 20 },
  ],
  callers: 256,
}

/** Requests of different lengths: sharing runs by padding instead of a run for every change of length. */
export const mixedLengths: Trial = {
  describe:
    'MLP at every position of rows of length 24 +- 8 and 120 +- 20, padded, against a batch per change of length',
  seconds: 4,
  async run({ seconds, rounds, smoke }) {
    const base: MixedLengthsInput = {
      ...load,
      side: 'padded',
      model: positionMlp(),
      warmupSeconds: smoke ? 0.3 : 1,
      seconds,
    }
    const measure = (side: MixedLengthsInput['side']) =>
      run<MixedLengthsResult>('programs/mixed-lengths.ts', { ...base, side })
    const found = await takeTurns(rounds, {
      flushed: () => measure('flushed'),
      padded: () => measure('padded'),
    })

    const middle = (results: readonly MixedLengthsResult[], key: keyof MixedLengthsResult) =>
      median(results.map((result) => result[key]))
    const row = (what: string, results: readonly MixedLengthsResult[]) => ({
      what,
      'requests/s': round(middle(results, 'requestsPerSecond'), 0),
      'rows per run': round(middle(results, 'meanBatchRows')),
      'padding waste': round(middle(results, 'waste')),
      'largest difference': Math.max(...results.map(({ maxDifference }) => maxDifference)),
    })
    const [plain, ours] = [
      row('a batch per change of length', found.flushed),
      row(`padded to ${load.sizes.join(', ')}`, found.padded),
    ]
    const ratio = round(ours['requests/s'] / plain['requests/s'])
    return {
      ours: ours['requests/s'],
      plain: plain['requests/s'],
      unit: `requests/s of ${load.callers} callers`,
      ratio,
      targets: [
        atLeast(2, 'requests/s, padded to a batch per change of length', ratio),
        atMost(1e-4, 'difference from the same rows run singly and unpadded', ours['largest difference']),
      ],
      rows: [plain, ours],
      numbers: [{
        question: 'mixed lengths: a batch for each change of length, or padded',
        plain: `${shown(plain['requests/s'])} /s`, zerohop: `${shown(ours['requests/s'])} /s`, note: `${ratio} x`,
      }], // prettier-ignore
      settings: load,
      details: found,
    }
  },
}
