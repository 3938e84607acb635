import { hasShared, sharedPath } from '../../test/support/shared.ts'
import { run } from '../child.ts'
import { matmulChain, type BenchModel } from '../models.ts'
import type { Level, LevelFigures, LoadLevels } from '../programs/load-levels.ts'
import { takeTurns } from '../rounds.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import { TrialSkipped, type Trial } from '../trial.ts'

const loadShares = [0.3, 0.6, 0.9, 1.2]
const arrivals = ['constant', 'poisson'] as const

/** One instance of each; without a configuration a plain session on the callers' thread. */
const ways: Readonly<Record<string, LoadLevels['config']>> = {
  'plain session': undefined,
  'one instance, no batching': { maxBatchSize: 0 },
  'one instance, preferred [4, 6, 8], delay 100 us': {
    maxBatchSize: 8,
    dynamicBatching: { preferredBatchSize: [4, 6, 8], maxQueueDelayMs: 0.1 },
  },
}

/** One load on one model in one way. */
type Row = Record<'model' | 'way' | 'arrivals' | 'runs by rows', string> &
  Record<'load %' | 'p50 ms' | 'p95 ms' | 'p99 ms' | 'rows a run', number> & {
    readonly 'queue ms': number | '-'
  }

/** Arrivals in a rhythm and at random, below and above what one request after the other can have. */
export const bursts: Trial = {
  describe:
    'constant and Poisson arrivals at 30 to 120 % of what one session does of single requests: latencies, queue, batches',
  reading:
    'A delay of 100 us is one of about 1.1 ms, the least that timers of Node wait: that is the queue time of batches at low loads. The threads of a plain session spin from one request to the next, which at low loads answers sooner and keeps the cores busy; the engine lets them sleep after 20 us.',
  seconds: 20,
  async run({ seconds, rounds, quick, smoke }) {
    const each = quick ? 4 : seconds
    const rows: Row[] = []
    const details: Record<string, unknown> = {}
    for (const [what, model] of Object.entries(models(smoke))) {
      const perSecond = await capacity(model, each)
      const levels: Level[] = loadShares.flatMap((share) =>
        arrivals.map((kind) => ({ kind, perSecond: share * perSecond, seconds: each })),
      )
      const sides = Object.entries(ways).map(([way, config]) => {
        const input: LoadLevels = {
          model,
          levels,
          warmupSeconds: each / 4,
          ...(config === undefined ? {} : { config }),
        }
        return [way, () => run<LevelFigures[]>('programs/load-levels.ts', input)] as const
      })
      const found = await takeTurns(quick ? 1 : rounds, Object.fromEntries(sides))
      details[what] = { perSecond, found }
      for (const [way, config] of Object.entries(ways)) {
        const figure = (at: number, of: (level: LevelFigures) => number) =>
          round(median(found[way]!.map((all) => of(all[at]!))), 2)
        for (const [at, level] of levels.entries()) {
          rows.push({
            model: what, way, arrivals: level.kind, 'load %': Math.round(loadShares[at >> 1]! * 100),
            'p50 ms': figure(at, ({ p50Ms }) => p50Ms), 'p95 ms': figure(at, ({ p95Ms }) => p95Ms), 'p99 ms': figure(at, ({ p99Ms }) => p99Ms),
            'queue ms': config === undefined ? '-' : figure(at, ({ queueMs }) => queueMs), 'rows a run': figure(at, ({ meanBatchRows }) => meanBatchRows),
            'runs by rows': batchesOf(found[way]![0]![at]!),
          }) // prettier-ignore
        }
      }
    }
    const p99 = (way: string) =>
      rows.find((row) => row.way === way && row.arrivals === 'poisson' && row['load %'] === 90)!['p99 ms']
    const [plain, , batched] = Object.keys(ways).map(p99) as [number, number, number]
    return {
      ours: batched,
      plain,
      unit: 'ms, p99 of Poisson arrivals at 90 %, of the first model',
      ratio: round(batched / plain),
      targets: [atMost(1, 'that p99, batched to a plain session', round(batched / plain))],
      rows,
      settings: { seconds: each },
      details,
    }
  },
}

function models(smoke: boolean): Record<string, BenchModel> {
  // Rows that share the reading of large weights, as rows on an accelerator do; and a network of convolutions, which on CPUs gains nothing.
  const dense = { 'dense layers': matmulChain(smoke ? 2 : 200) }
  if (smoke) return dense
  if (!hasShared) throw new TrialSkipped(' is left out: no ../shared with models')
  return {
    ...dense,
    SqueezeNet: { path: sharedPath('models/squeezenet/model.onnx'), input: 'data_0', rowDims: [3, 224, 224] },
  }
}

/** Single requests a second, one after the other. */
async function capacity(model: BenchModel, seconds: number): Promise<number> {
  const input: LoadLevels = {
    model,
    config: { maxBatchSize: 0 },
    levels: [{ kind: 'callers', callers: 1, seconds }],
    warmupSeconds: seconds / 4,
  }
  const [level] = await run<LevelFigures[]>('programs/load-levels.ts', input)
  return level!.perSecond
}

const batchesOf = ({ batches }: LevelFigures) =>
  Object.entries(batches)
    .map(([rows, count]) => `${count} x ${rows}`)
    .join(', ') || '-'
