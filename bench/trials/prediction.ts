import { run } from '../child.ts'
import { benchModel, matmulChain, type BenchModel } from '../models.ts'
import type { PredictionInput, PredictionResult, RunFigures } from '../programs/prediction.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

interface Case {
  readonly name: string
  readonly model: PredictionInput['model']
  readonly instances: number
  readonly load: number
  readonly arrivals: PredictionInput['arrivals']
}

const p99Bound = 0.15
const throughputBound = 0.05
const maxBatchSize = 8
const oneRow = [{ rows: 1, share: 1 }]
const mixed = [
  { rows: 1, share: 0.8 },
  { rows: 2, share: 0.1 },
  { rows: 4, share: 0.1 },
]

function casesOf(models: readonly (readonly [string, BenchModel | 'sleeper'])[]): Case[] {
  const cases = models.flatMap(([name, model]) =>
    [0.3, 0.6, 0.9].map((load): Case => ({
      name: `${name}, ${load * 100} %`,
      model,
      instances: 1,
      load,
      arrivals: 'poisson',
    })),
  )
  const [name, model] = models.at(-1)!
  return [
    ...cases,
    { name: `${name}, 60 %, in bursts`, model, instances: 1, load: 0.6, arrivals: 'bursts' },
    { name: `${name}, 60 %, 2 instances`, model, instances: 2, load: 0.6, arrivals: 'poisson' },
    { name: `${name}, 90 %, 2 instances`, model, instances: 2, load: 0.9, arrivals: 'poisson' },
  ]
}

/** How well the simulator tells what an engine does: by its recorded runs, and by a calibration. */
export const prediction: Trial = {
  describe:
    "a real load, recorded, against the simulator's prediction of it: by the recorded runs, and by a calibration of the model before",
  seconds: 12,
  async run({ seconds, rounds, smoke }) {
    const models = smoke
      ? ([['sleeper', 'sleeper']] as const)
      : ([
          ['sleeper', 'sleeper'],
          ['dense layers', matmulChain(200)],
          ['resnet50', benchModel('resnet50')],
        ] as const)
    const rows = []
    const errors = {
      recording: { p99: [] as number[], throughput: [] as number[] },
      model: { p99: [] as number[], throughput: [] as number[] },
    }
    const details: Record<string, PredictionResult[]> = {}
    for (const { name, model, instances, load, arrivals } of casesOf(models)) {
      const results: PredictionResult[] = []
      const given: PredictionInput = {
        model, instances, maxBatchSize, load, arrivals, rows: load === 0.6 ? mixed : oneRow,
        seconds: smoke ? 2 : seconds, calibrationSeconds: smoke ? 1 : Math.max(4, seconds / 3), seed: 1,
      } // prettier-ignore
      for (let round = 0; round < rounds; round++) results.push(await run('programs/prediction.ts', given))
      details[name] = results
      const off = (predicted: 'byRecording' | 'byModel' | 'replayed', key: keyof RunFigures) =>
        median(results.map((result) => Math.abs(result[predicted][key] / result.recorded[key] - 1)))
      errors.recording.p99.push(off('byRecording', 'p99Ms'))
      errors.recording.throughput.push(off('byRecording', 'perSecond'))
      errors.model.p99.push(off('byModel', 'p99Ms'))
      errors.model.throughput.push(off('byModel', 'perSecond'))
      const middle = (
        of: keyof Pick<PredictionResult, 'recorded' | 'replayed' | 'byRecording' | 'byModel'>,
        key: keyof RunFigures,
      ) => toThousandth(median(results.map((result) => result[of][key])))
      rows.push({
        what: name,
        'requests/s': middle('recorded', 'perSecond'),
        'p50 ms': middle('recorded', 'p50Ms'),
        'p99 ms': middle('recorded', 'p99Ms'),
        'replayed p99': middle('replayed', 'p99Ms'),
        'by recording: p99': middle('byRecording', 'p99Ms'),
        'off %': percent(off('byRecording', 'p99Ms')),
        'requests/s off %': percent(off('byRecording', 'perSecond')),
        'by model: p99': middle('byModel', 'p99Ms'),
        'p99 off %': percent(off('byModel', 'p99Ms')),
        'of replay off %': percent(off('replayed', 'p99Ms')),
      })
    }
    const worst = (values: readonly number[]) => toThousandth(Math.max(...values))
    const ours = toThousandth(median(errors.recording.p99))
    const plain = toThousandth(median(errors.model.p99))
    return {
      ours,
      plain,
      unit: 'share by which the predicted p99 is off, in the middle of all cases: by the recorded runs, to by a calibration',
      ratio: round(ours / plain),
      targets: [
        atMost(p99Bound, 'worst p99 by the recorded runs, as a share it is off', worst(errors.recording.p99)),
        atMost(
          throughputBound,
          'worst throughput by the recorded runs, as a share it is off',
          worst(errors.recording.throughput),
        ),
        atMost(
          throughputBound,
          'worst throughput by a calibration, as a share it is off',
          worst(errors.model.throughput),
        ),
      ],
      rows,
      settings: { maxBatchSize, rowsAt60: mixed, seconds },
      details,
    }
  },
}

function percent(share: number): number {
  return round(share * 100, 1)
}

function toThousandth(value: number): number {
  return round(value, 3)
}
