import { run } from '../child.ts'
import { benchModel } from '../models.ts'
import type { LevelFigures, LoadLevels } from '../programs/load-levels.ts'
import { takeTurns } from '../rounds.ts'
import { shown } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atLeast } from '../targets.ts'
import type { Trial } from '../trial.ts'

const maxBatchSize = 8
const two = { instanceGroup: [{ count: 2 }] }

/** The steps of Triton's guide; without a configuration a plain session on the callers' thread. */
const steps: Readonly<Record<string, LoadLevels['config']>> = {
  'plain session': undefined,
  'no batching': { maxBatchSize: 0 },
  'dynamic batching': { maxBatchSize },
  'preferred [4]': { maxBatchSize, dynamicBatching: { preferredBatchSize: [4] } },
  '2 instances': { maxBatchSize: 0, ...two },
  'batching and 2 instances': { maxBatchSize, ...two },
}

/** What each setting is worth, one after the other (Triton's user guide, "Optimization"). */
export const optimisationWalk: Trial = {
  describe:
    'ResNet-50 with 1 to 8 callers: no batching, dynamic batching, preferred [4], 2 instances, both, and a plain session',
  reading:
    'Each of two instances has half of the threads. With batching, callers that fit into one batch are answered together and ask again together: one instance has all of them and the other none, until that is found to give less than a part for each, which takes some seconds of runs as long as these.',
  seconds: 10,
  async run({ seconds, rounds, quick, smoke }) {
    const model = benchModel(smoke ? 'mlp' : 'resnet50')
    const callers = [1, 2, 3, 4, 5, 6, 7, 8]
    const each = quick ? 3 : seconds
    const levels = callers.map((count) => ({ kind: 'callers' as const, callers: count, seconds: each }))
    const sides = Object.entries(steps).map(([step, config]) => {
      const input: LoadLevels = {
        model,
        levels,
        warmupSeconds: each / 3,
        ...(config === undefined ? {} : { config }),
      }
      return [step, () => run<LevelFigures[]>('programs/load-levels.ts', input)] as const
    })
    const found = await takeTurns(quick ? 1 : rounds, Object.fromEntries(sides))
    const figure = (step: string, at: number, of: (level: LevelFigures) => number) =>
      median(found[step]!.map((all) => of(all[at]!)))
    const rows = Object.keys(steps).flatMap((step) =>
      callers.map((count, at) => ({
        step,
        callers: count,
        'images/s': round(
          figure(step, at, ({ perSecond }) => perSecond),
          1,
        ),
        'p50 ms': round(
          figure(step, at, ({ p50Ms }) => p50Ms),
          1,
        ),
        'p95 ms': round(
          figure(step, at, ({ p95Ms }) => p95Ms),
          1,
        ),
        'p99 ms': round(
          figure(step, at, ({ p99Ms }) => p99Ms),
          1,
        ),
        'rows a run': round(
          figure(step, at, ({ meanBatchRows }) => meanBatchRows),
          1,
        ),
      })),
    )
    const best = (names: readonly string[]) =>
      Math.max(...rows.filter(({ step }) => names.includes(step)).map((row) => row['images/s']))
    const ours = best(Object.keys(steps).slice(1))
    const plain = best(['plain session'])
    return {
      ours, plain,
      unit: 'images/s at the best level',
      ratio: round(ours / plain),
      numbers: [{ question: 'ResNet-50, 1 to 8 callers: the best of batching, preferred sizes and instances', plain: `${shown(plain)} images/s`, zerohop: `${shown(ours)} images/s`, note: `${round(ours / plain)} x` }],
      targets: [atLeast(0.98, 'images/s at the best level, ours to a plain session', round(ours / plain))],
      rows,
      settings: { maxBatchSize, seconds: each },
      details: found,
    } // prettier-ignore
  },
}
