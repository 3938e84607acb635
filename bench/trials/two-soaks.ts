import { hasShared, sharedPath } from '../../test/support/shared.ts'
import { run } from '../child.ts'
import type { Photographs, PhotographsRound } from '../programs/photographs.ts'
import { round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import { TrialSkipped, type Trial } from '../trial.ts'

const sides = ['plain', 'ours'] as const
const names = ['first', 'second', 'long']
const images = ['goldfish.jpg', 'wolves.jpg', 'kitten.jpg', 'dog_torchserve.jpg', 'daisy.jpg']

/** What a service of photographs keeps: two rounds that are the same, and a long one. */
export const twoSoaks: Trial = {
  describe:
    'SqueezeNet from JPEG files with 4 callers: 2000 requests twice, then 100 000; requests/s, latencies as `ab` prints them, memory',
  async run({ quick, smoke }) {
    if (!hasShared) throw new TrialSkipped(' is left out: no ../shared with models and images')
    const requests = smoke ? [20, 20, 40] : quick ? [500, 500, 4000] : [2000, 2000, 100_000]
    const measure = (side: Photographs['side']) => {
      const input: Photographs = {
        side,
        model: sharedPath('models/squeezenet/model.onnx'),
        images: images.map((name) => sharedPath(`images/${name}`)),
        concurrency: 4,
        rounds: requests,
      }
      return run<PhotographsRound[]>('programs/photographs.ts', input, ['--expose-gc'])
    }
    const found = { plain: await measure('plain'), ours: await measure('ours') }
    const megabytes = (bytes: number) => round(bytes / 2 ** 20, 1)
    const rows = sides.flatMap((side) =>
      found[side].map(({ requests, perSecond, servedWithinMs, heapUsedBytes, externalBytes, rssBytes }, at) => ({
        side, round: names[at]!, requests, 'requests/s': round(perSecond, 1),
        ...Object.fromEntries(Object.entries(servedWithinMs).map(([percent, ms]) => [`${percent} % ms`, round(ms, 1)])),
        'heap MB': megabytes(heapUsedBytes), 'external MB': megabytes(externalBytes), 'RSS MB': megabytes(rssBytes),
      })),
    ) // prettier-ignore
    const rates = sides.map((side) => found[side].at(-1)!.perSecond) as [number, number]
    const grown = megabytes(found.ours.at(-1)!.rssBytes - found.ours[1]!.rssBytes)
    return {
      ours: round(rates[1], 1),
      plain: round(rates[0], 1),
      unit: 'requests/s of the long round',
      ratio: round(rates[1] / rates[0]),
      targets: [atMost(8, 'RSS after the long round over that after the second, in MB', grown)],
      rows,
      settings: { callers: 4, images, maxBatchSize: 8 },
      details: found,
    }
  },
}
