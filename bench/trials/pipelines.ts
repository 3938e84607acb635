import { run } from '../child.ts'
import { benchModel } from '../models.ts'
import type { PipelinesInput, PipelinesResult } from '../programs/pipelines.ts'
import { takeTurns } from '../rounds.ts'
import { shownAll } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const models = { identity: '16 bytes', 'image-identity': '588 KiB' } as const
const steps = 3

/** What a pipeline costs or saves, against the same models called one after the other. */
export const pipelines: Trial = {
  describe: 'three models that do nothing, one behind the other: as a pipeline, and called by hand',
  seconds: 3,
  async run({ seconds, rounds }) {
    const found = []
    for (const name of Object.keys(models) as (keyof typeof models)[]) {
      for (const callers of [1, 64]) {
        const measure = (side: PipelinesInput['side']) => () =>
          run<PipelinesResult>('programs/pipelines.ts', {
            model: benchModel(name),
            steps,
            callers,
            side,
            seconds,
          } satisfies PipelinesInput)
        const turns = await takeTurns(rounds, {
          'by hand': measure('by hand'),
          pipeline: measure('pipeline'),
        })
        const of = (side: PipelinesInput['side'], figure: keyof PipelinesResult) =>
          median(turns[side].map((result) => result[figure]))
        const perRequestUs = (side: PipelinesInput['side']) =>
          callers === 1 ? of(side, 'p50Us') : 1e6 / of(side, 'requestsPerSecond')
        const overheadUs = round(perRequestUs('pipeline') - perRequestUs('by hand'), 1)
        found.push({
          callers, overheadUs, turns, what: models[name], name,
          row: {
            tensors: models[name], callers, 'by hand us': round(perRequestUs('by hand'), 1), 'pipeline us': round(perRequestUs('pipeline'), 1), 'overhead us': overheadUs,
            'by hand CPU us': round(of('by hand', 'cpuUs'), 1), 'pipeline CPU us': round(of('pipeline', 'cpuUs'), 1),
          },
        }) // prettier-ignore
      }
    }
    const [first] = found
    return {
      ours: first!.row['pipeline us'],
      plain: first!.row['by hand us'],
      unit: 'us, p50 of a request of 16 bytes from one caller',
      ratio: round(first!.row['pipeline us'] / first!.row['by hand us']),
      targets: found.map(({ callers, overheadUs, what }) =>
        atMost(
          callers === 1 ? 10 : 0,
          `${what}, ${callers} ${callers === 1 ? 'caller' : 'callers'}: us more than by hand`,
          overheadUs,
        ),
      ),
      rows: found.map(({ row }) => row),
      numbers: [
        {
          question: `three small models one behind the other, called by hand, or as a pipeline: ${found.map(({ what, callers }) => `${what} with ${callers}`).join(', ')}`,
          plain: shownAll(
            found.map(({ row }) => row['by hand us']),
            'us',
          ),
          zerohop: shownAll(
            found.map(({ row }) => row['pipeline us']),
            'us',
          ),
          note: `${found.map(({ overheadUs }) => overheadUs).join(', ')} us more`,
        },
      ],
      settings: { seconds, steps },
      details: found.map(({ name, callers, turns }) => ({ name, callers, turns })),
    }
  },
}
