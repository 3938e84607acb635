import { describe, expect, it } from 'vitest'
import { hasJpegDecoder, missingJpegDecoder } from '../image/watched-decoder.ts'
import { jpegOf } from '../image/jpegs.ts'
import { jpegLibrary } from '../../src/features/image/image-decoders.ts'
import { nothingBuilt, runOver, suites } from './binaries.ts'

describe.skipIf(nothingBuilt || !hasJpegDecoder).each(suites)(
  `while JPEGs are decoded with %s${missingJpegDecoder}`,
  (binary) => {
    it.each([
      ['all are waited for', [true]],
      ['the process exits', 'exits'],
      ['a worker is terminated', [true]],
    ])('the process ends well when: %s', async (order, answer) => {
      const jpeg = await jpegOf(40, 30)
      expect(runOver(binary, 'jpeg.mjs', [order, jpegLibrary(), jpeg.toString('base64')])).toEqual(answer)
    })
  },
)
