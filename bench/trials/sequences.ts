import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { run } from '../child.ts'
import type { SequencesInput, SequencesResult } from '../programs/sequences.ts'
import { takeTurns } from '../rounds.ts'
import { shown } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atLeast } from '../targets.ts'
import { TrialSkipped, type Trial } from '../trial.ts'

const streams = 64
const folder = fileURLToPath(new URL('../../../shared/models/silero-vad', import.meta.url))

/** Streams of Silero VAD, whose state is of its second dimension's rows: each request a run of its own, or in batches. */
export const sequences: Trial = {
  describe:
    '64 streams of Silero VAD: rows/s where each request runs alone and its caller hands the state on, and as sequences in batches',
  seconds: 3,
  async run({ seconds, rounds }) {
    if (!existsSync(folder)) throw new TrialSkipped(`there is no ${folder}`)
    const cores = availableParallelism()
    const measure = (side: Partial<SequencesInput>) => () =>
      run<SequencesResult>('programs/sequences.ts', {
        folder,
        streams,
        maxBatchSize: 0,
        instances: 1,
        threads: 0,
        seconds,
        ...side,
      } satisfies SequencesInput)
    const sides = {
      'each alone': measure({}),
      'each alone, an instance for each core': measure({ instances: cores, threads: 1 }),
      'in batches': measure({ maxBatchSize: streams, threads: 1 }),
      'in batches, an instance for each core': measure({
        maxBatchSize: Math.ceil(streams / cores),
        instances: cores,
        threads: 1,
      }),
    }
    const turns = await takeTurns(rounds, sides)
    const names = Object.keys(sides) as (keyof typeof sides)[]
    const of = (name: keyof typeof sides, figure: keyof SequencesResult) =>
      median(turns[name].map((result) => result[figure]))
    const rows = names.map((name) => ({
      how: name,
      'rows/s': round(of(name, 'rowsPerSecond'), 0),
      'CPU us': round(of(name, 'cpuUs'), 0),
      'rows a run': round(of(name, 'rowsPerRun'), 1),
    }))
    const plain = of('each alone', 'rowsPerSecond')
    const ours = Math.max(
      of('in batches', 'rowsPerSecond'),
      of('in batches, an instance for each core', 'rowsPerSecond'),
    )
    return {
      ours: round(ours, 0),
      plain: round(plain, 0),
      unit: 'rows/s of 64 streams',
      numbers: [{
        question: `${streams} streams of Silero VAD: each request alone, or as sequences in batches`,
        plain: `${shown(plain)} rows/s`, zerohop: `${shown(ours)} rows/s`, note: `${round(ours / plain)} x`,
      }], // prettier-ignore
      ratio: round(ours / plain),
      targets: [atLeast(5, '64 streams in batches, against each request alone', round(ours / plain))],
      rows,
      settings: { seconds, streams, cores },
      details: turns,
    }
  },
}
