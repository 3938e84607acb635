import { run } from '../child.ts'
import { benchModel } from '../models.ts'
import type { SoakInput, SoakSample } from '../programs/soak.ts'
import { shown } from '../shown.ts'
import { executors } from '../side.ts'
import { round, slope } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const megabytes = (bytes: number) => bytes / 2 ** 20

/** Memory over a million requests: it must not grow. */
export const soak: Trial = {
  describe:
    'RSS and heap over 1 000 000 requests of either executor, nine of ten small and one of 588 KB; its slope after the first tenth',
  async run({ requests, smoke }) {
    const total = smoke ? 2_000 : requests
    const load = { largeEvery: 10, concurrency: 64, requests: total, sampleEvery: Math.ceil(total / 100) }
    const models = { small: benchModel('mlp'), large: benchModel('image-identity') }

    const measure = async (side: SoakInput['side']) => {
      const input: SoakInput = { side, ...models, ...load }
      const samples = await run<SoakSample[]>('programs/soak.ts', input, ['--expose-gc'])
      const settled = samples.filter((sample) => sample.requests > total / 10)
      const perHundredThousand = (key: 'rssBytes' | 'heapUsedBytes') =>
        round(slope(settled.map((sample) => ({ x: sample.requests / 1e5, y: megabytes(sample[key]) }))), 3)
      const [first, last] = [settled[0]!, settled.at(-1)!]
      const row = {
        side,
        'RSS MB first': round(megabytes(first.rssBytes), 1),
        'RSS MB last': round(megabytes(last.rssBytes), 1),
        'RSS MB per 100 000': perHundredThousand('rssBytes'),
        'heap MB last': round(megabytes(last.heapUsedBytes), 1),
        'heap MB per 100 000': perHundredThousand('heapUsedBytes'),
      }
      return { row, samples }
    }
    const found = {
      plain: await measure('plain'),
      native: await measure('native'),
      binding: await measure('binding'),
    }
    const slopeOf = (side: keyof typeof found) => found[side].row['RSS MB per 100 000']
    return {
      ours: slopeOf('native'),
      plain: slopeOf('plain'),
      unit: 'MB of RSS per 100 000 requests',
      ratio: round(slopeOf('native') / slopeOf('plain')),
      targets: [atMost(0.2, 'growth of RSS with native, in MB per 100 000 requests', slopeOf('native'))],
      rows: [found.plain.row, ...executors.map((side) => found[side].row)],
      numbers: [
        {
          question: `RSS over ${shown(total)} requests, one of ten of 588 KB: at the end, and its slope`,
          plain: `${shown(found.plain.row['RSS MB last'])} MB`,
          zerohop: `${shown(found.native.row['RSS MB last'])} MB`,
          note: `${slopeOf('native')} MB per 100 000 requests; plain ${slopeOf('plain')}`,
        },
      ],
      settings: load,
      details: { plain: found.plain.samples, native: found.native.samples, binding: found.binding.samples },
    }
  },
}
