import { run } from '../child.ts'
import { benchModel } from '../models.ts'
import type { SoakInput, SoakSample } from '../programs/soak.ts'
import { round, slope } from '../statistics.ts'
import type { Trial } from '../trial.ts'

const maxSlopeMb = 1

/** Memory over a million requests: it must not grow. */
export const soak: Trial = {
  describe: 'RSS and heap over 1 000 000 requests, small rows and rows of 588 KB; the slope after the first tenth',
  seconds: 0,
  async run({ requests, smoke }) {
    const total = smoke ? 20_000 : requests
    const loads: Record<string, SoakInput> = {
      mlp: { model: benchModel('mlp'), maxBatchSize: 64, concurrency: 64, requests: total * 0.9, sampleEvery: total / 100 },
      '588 KB': { model: benchModel('image-identity'), maxBatchSize: 8, concurrency: 16, requests: total * 0.1, sampleEvery: total / 1000 },
    }
    const rows = []
    for (const [load, input] of Object.entries(loads)) {
      const samples = await run<SoakSample[]>('soak.ts', input, ['--expose-gc'])
      const settled = samples.filter((sample) => sample.requests > input.requests * 0.1)
      const perHundredThousand = (pick: (sample: SoakSample) => number) =>
        slope(settled.map((sample) => ({ x: sample.requests / 100_000, y: pick(sample) / 2 ** 20 })))
      const megabytes = (bytes: number) => round(bytes / 2 ** 20, 1)
      rows.push({
        load,
        requests: input.requests,
        'RSS MB first': megabytes(settled[0]!.rssBytes),
        'RSS MB last': megabytes(settled.at(-1)!.rssBytes),
        'heap MB last': megabytes(settled.at(-1)!.heapUsedBytes),
        'RSS MB per 100 000': round(perHundredThousand(({ rssBytes }) => rssBytes), 3),
      })
    }
    const small = rows[0]!['RSS MB per 100 000']
    return {
      ours: small,
      plain: 0,
      unit: 'MB of RSS per 100 000 requests (small rows)',
      ratio: small,
      target: `slope <= ${maxSlopeMb} MB per 100 000 requests`,
      met: small <= maxSlopeMb,
      rows,
      settings: Object.fromEntries(Object.entries(loads).map(([load, { concurrency, maxBatchSize }]) => [load, { concurrency, maxBatchSize }])),
    }
  },
}
