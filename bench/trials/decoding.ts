import { readFileSync } from 'node:fs'
import sharp from 'sharp'
import { hasShared, sharedPath } from '../../test/support/shared.ts'
import { run } from '../child.ts'
import type { DecodingInput, DecodingResult } from '../programs/decoding.ts'
import { takeTurns } from '../rounds.ts'
import { shownRange } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import { TrialSkipped, type Trial } from '../trial.ts'

const names = ['goldfish.jpg', 'wolves.jpg', 'kitten.jpg', 'dog_torchserve.jpg', 'daisy.jpg', 'mug.jpg']
/** Photographs whose longer side has no more pixels than this are those that services are mostly sent. */
const commonPixels = 1000

/** What a photograph costs until it can be written to a model. */
export const decoding: Trial = {
  describe:
    'photographs (JPEG) to float32 planes of 224 x 224: by hand with sharp, and by zerohop/image; processor and wall time of each',
  seconds: 6,
  async run({ seconds, rounds, smoke }) {
    if (!hasShared) throw new TrialSkipped(' is left out: no ../shared with images')
    const images = (smoke ? names.slice(0, 1) : names).map((name) => sharedPath(`images/${name}`))
    const measure = (side: DecodingInput['side']) => () =>
      run<DecodingResult>('programs/decoding.ts', { side, images, seconds } satisfies DecodingInput)
    const found = await takeTurns(rounds, { plain: measure('plain'), ours: measure('ours') })
    const sizes = await Promise.all(images.map((path) => sharp(readFileSync(path)).metadata()))
    const all = images.map((_, index) => {
      const of = (side: 'plain' | 'ours', figure: keyof DecodingResult) =>
        round(median(found[side].map((result) => result[figure][index]!)))
      const [plainMs, oursMs] = [of('plain', 'cpuMs'), of('ours', 'cpuMs')]
      const { width, height } = sizes[index]!
      return {
        isCommon: Math.max(width, height) <= commonPixels,
        row: {
          image: names[index]!, pixels: `${width} x ${height}`, 'sharp, CPU ms': plainMs, 'zerohop, CPU ms': oursMs, 'CPU, zerohop to sharp': round(oursMs / plainMs),
          'sharp, ms': of('plain', 'wallMs'), 'zerohop, ms': of('ours', 'wallMs'),
        },
      } // prettier-ignore
    })
    const common = all.filter(({ isCommon }) => isCommon).map(({ row }) => row)
    const of = (what: 'sharp, CPU ms' | 'zerohop, CPU ms' | 'CPU, zerohop to sharp') =>
      common.map((row) => row[what])
    const ratio = round(median(of('CPU, zerohop to sharp')))
    return {
      ours: median(of('zerohop, CPU ms')),
      plain: median(of('sharp, CPU ms')),
      unit: `ms of processor time for a photograph of at most ${commonPixels} pixels`,
      ratio,
      numbers: [{
        question: 'a photograph (JPEG of 300 to 720 pixels) to planes of 224 x 224: processor time by hand with sharp, and by `zerohop/image` with libjpeg-turbo',
        plain: shownRange(of('sharp, CPU ms'), 'ms'), zerohop: shownRange(of('zerohop, CPU ms'), 'ms'), note: `${ratio} x`,
      }], // prettier-ignore
      targets: [
        atMost(
          0.5,
          'processor time for a photograph of 300 to 720 pixels, to sharp',
          Math.max(...of('CPU, zerohop to sharp')),
        ),
      ],
      rows: all.map(({ row }) => row),
      settings: { seconds },
      details: found,
    }
  },
}
