import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { InferenceSession } from 'onnxruntime-node'
import sharp, { type JpegOptions } from 'sharp'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { decodeImage, imageConcurrency, type ImageOptions } from '../../src/features/image/exports.ts'
import * as ownPackage from '../../src/base/own-package.ts'
import { jpegLibrary, jpegLibraryIn } from '../../src/features/image/image-decoders.ts'
import * as addon from '../../src/native/addon.ts'
import { full } from '../support/full.ts'
import { hasShared, missingShared, sharedPath } from '../support/shared.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'
import { byBoth, difference } from './both-decoders.ts'
import { exifOf, exifSegment, jpegOf, pictureOf, withSegments } from './jpegs.ts'
import { decodeBy, hasJpegDecoder, missingJpegDecoder, watchDecoder } from './watched-decoder.ts'

watchDecoder()

const kernels = ['linear', 'cubic', 'mitchell', 'lanczos2', 'lanczos3', 'mks2013', 'mks2021'] as const
const shapes: Partial<ImageOptions>[] = [
  {},
  { fit: 'contain', background: [200, 10, 90] },
  { fit: 'fill' },
  { crop: { shorterSide: 230 } },
  { width: 150 },
  { height: 97, fit: 'contain' },
]
const size = { width: 224, height: 224 }

/** The same filters with the same weights, but for the last bit of a few. */
const photograph = { mean: 0.01, most: 2 }

/** A few bits are more of a small one. */
const small = { mean: 0.05, most: 2 }

describe.skipIf(!hasJpegDecoder)(`a plain JPEG${missingJpegDecoder}`, () => {
  describe.skipIf(!hasShared)(`of ../shared${missingShared}`, () => {
    const photographs = [
      'goldfish.jpg',
      'wolves.jpg',
      'daisy.jpg',
      'dog_torchserve.jpg',
      'kitten.jpg',
      'mug.jpg',
    ]

    it.each(photographs)('becomes the picture that sharp makes of it: %s', async (name) => {
      const bytes = readFileSync(sharedPath(`images/${name}`))
      for (const [index, shape] of shapes
        .slice(0, full || name === 'goldfish.jpg' ? undefined : 2)
        .entries()) {
        const all = full ? name !== 'mug.jpg' : name === 'goldfish.jpg' && index === 0
        for (const kernel of all ? kernels : (['lanczos3'] as const)) {
          const { ours, sharps } = await byBoth(bytes, { ...size, kernel, ...shape })
          const { mean, most } = difference(ours.pixels, sharps.pixels)
          const what = `${kernel} ${JSON.stringify(shape)}`
          expect(ours.decoded, what).toEqual([true])
          expect(mean, what).toBeLessThanOrEqual(photograph.mean)
          expect(most, what).toBeLessThanOrEqual(photograph.most)
        }
      }
    })

    it('is taken for the same by SqueezeNet: the first five labels', async () => {
      const session = await InferenceSession.create(sharedPath('models/squeezenet/model.onnx'))
      const labels = async (pixels: Uint8Array): Promise<number[]> => {
        const data_0 = new (await import('onnxruntime-node')).Tensor(
          'float32',
          planesOf(pixels),
          [1, 3, 224, 224],
        )
        const scores = (await session.run({ data_0 }))['softmaxout_1']!.data as Float32Array
        return [...scores.keys()].sort((a, b) => scores[b]! - scores[a]!).slice(0, 5)
      }
      for (const name of full ? photographs : photographs.slice(0, 2)) {
        const { ours, sharps } = await byBoth(readFileSync(sharedPath(`images/${name}`)), {
          ...size,
          channels: 'bgr',
        })
        expect(await labels(ours.pixels as Uint8Array), name).toEqual(
          await labels(sharps.pixels as Uint8Array),
        )
      }
    })
  })

  it.each<[string, number, number, JpegOptions]>([
    ['as it is', 81, 70, {}],
    ['progressive', 81, 70, { progressive: true }],
    ['not subsampled', 133, 110, { chromaSubsampling: '4:4:4' }],
    ['of exactly the size', 56, 56, {}],
    ['of exactly the width', 56, 75, {}],
    ['read at half its size', 201, 177, {}],
    ['read at a quarter', 303, 290, {}],
    ['read at an eighth', 525, 513, {}],
  ])('made for this becomes the picture that sharp makes of it: %s', async (_, width, height, options) => {
    const bytes = await jpegOf(width, height, options)
    for (const shape of shapes.slice(0, 3)) {
      const { ours, sharps } = await byBoth(bytes, { width: 56, height: 56, ...shape })
      const { mean, most } = difference(ours.pixels, sharps.pixels)
      expect(ours.decoded).toEqual([true])
      expect(mean).toBeLessThanOrEqual(small.mean)
      expect(most).toBeLessThanOrEqual(small.most)
    }
  })

  it.each([
    [205, 29, 7, 23],
    [8, 135, 2, 60],
    [268, 37, 185, 2],
  ])(
    'of %i x %i, of which few lines are left, becomes that picture: %i x %i',
    async (width, height, ...[columns, rows]) => {
      const { ours, sharps } = await byBoth(await jpegOf(width, height), {
        width: columns!,
        height: rows!,
        fit: 'contain',
      })
      expect(ours.decoded).toEqual([true])
      expect(difference(ours.pixels, sharps.pixels).most).toBeLessThanOrEqual(small.most)
    },
  )

  it('becomes grey where it is', async () => {
    const bytes = await sharp(pictureOf(300, 240), { raw: { width: 300, height: 240, channels: 3 } })
      .toColourspace('b-w')
      .jpeg()
      .toBuffer()
    const { ours, sharps } = await byBoth(bytes, { ...size, fit: 'contain', background: [50, 50, 50] })
    expect(ours.decoded).toEqual([true])
    expect(difference(ours.pixels, sharps.pixels).most).toBeLessThanOrEqual(photograph.most)
  })

  it.each<[string, (jpeg: Buffer) => Buffer | Promise<Buffer>, Partial<ImageOptions>]>([
    ['stands on its side', (jpeg) => withSegments(jpeg, exifSegment(exifOf(6))), {}],
    ['has a colour profile', (jpeg) => sharp(jpeg).withIccProfile('p3').jpeg().toBuffer(), {}],
    ['is CMYK', (jpeg) => sharp(jpeg).toColourspace('cmyk').jpeg().toBuffer(), {}],
    ['is a PNG', (jpeg) => sharp(jpeg).png().toBuffer(), {}],
    ['is enlarged', (jpeg) => jpeg, { width: 900 }],
    ['is enlarged in one direction', (jpeg) => jpeg, { height: 900, fit: 'fill' }],
    ['is shrunk far more in one direction', (jpeg) => jpeg, { width: 30, height: 299, fit: 'fill' }],
    ['is to have the nearest pixels', (jpeg) => jpeg, { kernel: 'nearest' }],
    [
      'is grey, beside a colour',
      (jpeg) => sharp(jpeg).toColourspace('b-w').jpeg().toBuffer(),
      { width: 60, height: 44, fit: 'contain', background: [162, 179, 109] },
    ],
  ])('is left to sharp where it %s', async (_, made, options) => {
    const { ours, sharps } = await byBoth(await made(await jpegOf(320, 300)), { ...size, ...options })
    expect(ours.decoded).toEqual([])
    expect(difference(ours.pixels, sharps.pixels)).toEqual({ mean: 0, most: 0 })
  })

  it('is left to sharp, which refuses it, where it is over a limit', async () => {
    const { ours } = await byBoth(await jpegOf(320, 300), { ...size, limitInputPixels: 320 * 300 - 1 })
    expect(ours.decoded).toEqual([])
    expect(ours.pixels).toMatchObject({
      code: 'ERR_IMAGE_DECODE',
      argument: 'limitInputPixels',
      received: '96000 pixels (320 x 300)',
    })
  })

  it('is decoded in rows of a batch, in every type and layout', async () => {
    const bytes = await jpegOf(320, 300)
    const batch = new Float32Array(2 * 3 * 224 * 224)
    await decodeImage(bytes, { ...size, scale: 1 / 255 }, { into: batch, offset: 3 * 224 * 224 })
    const { data } = await decodeImage(bytes, { ...size, layout: 'nhwc', dtype: 'uint8' })
    expect(batch[3 * 224 * 224 + 224 * 224 + 5]).toBeCloseTo((data[3 * 5 + 1] as number) / 255, 6)
    expect(batch.subarray(0, 3 * 224 * 224).every((value) => value === 0)).toBe(true)
  })
})

describe.skipIf(!hasJpegDecoder)('while a plain JPEG is decoded', () => {
  const before = imageConcurrency()
  afterEach(() => {
    decodeBy()
    imageConcurrency(before)
  })

  /** Has images decoded when `open` is called, and counts those that were begun. */
  function gate(): { begun: number; open: () => void } {
    const state = { begun: 0, open: () => {} }
    const opened = new Promise<void>((resolve) => (state.open = resolve))
    decodeBy(async () => {
      state.begun++
      await opened
      return true
    })
    return state
  }

  it('it keeps its place, also when its caller has withdrawn or was told that it takes too long', async () => {
    imageConcurrency(1)
    const bytes = await jpegOf(320, 300)
    const controller = new AbortController()
    const decoding = gate()
    const withdrawn = decodeImage(bytes, { ...size, signal: controller.signal })
    const next = decodeImage(bytes, { ...size, timeoutMs: 5 })
    await vi.waitFor(() => expect(decoding.begun).toBe(1))
    controller.abort(new Error('no longer wanted'))
    await expect(withdrawn).rejects.toThrow('no longer wanted')
    expect(decoding.begun).toBe(1)
    decoding.open()
    const late = gate()
    await expect(next).rejects.toMatchObject({ code: 'ERR_IMAGE_DECODE', argument: 'timeoutMs' })
    late.open() // its place is for the tests of other files
  })

  it('its bytes may be given away, which are not those that are read', async () => {
    const jpeg = await jpegOf(320, 300)
    const given = Uint8Array.from(jpeg)
    decodeBy((bytes) => {
      structuredClone(given.buffer, { transfer: [given.buffer] })
      expect([given.byteLength, bytes.byteLength]).toEqual([0, jpeg.byteLength])
      return Promise.resolve(false)
    })
    const { data } = await decodeImage(given, { ...size, dtype: 'uint8' })
    decodeBy()
    expect(
      difference(data, (await decodeImage(jpeg, { ...size, dtype: 'uint8' })).data).most,
    ).toBeLessThanOrEqual(photograph.most)
  })

  it('nobody else has its pixels, however long that takes after its caller has withdrawn; those that were written serve the next', async () => {
    imageConcurrency(4)
    const jpeg = await jpegOf(320, 300)
    const own = { ...size, width: 223 }
    const pixels: unknown[] = []
    const withdrawn = new AbortController()
    let endIt!: (decoded: boolean) => void
    decodeBy((_, rgb) => (pixels.push(rgb), new Promise((resolve) => (endIt = resolve))))
    const stuck = decodeImage(jpeg, { ...own, signal: withdrawn.signal })
    await vi.waitFor(() => expect(pixels).toHaveLength(1))
    withdrawn.abort(new Error('no longer wanted'))
    await expect(stuck).rejects.toThrow('no longer wanted')
    decodeBy((_, rgb) => (pixels.push(rgb), Promise.resolve(true)))
    for (let image = 0; image < 3; image++) await decodeImage(jpeg, own)
    expect(pixels.map((each) => pixels.indexOf(each))).toEqual([0, 1, 1, 1])
    await Promise.all([decodeImage(jpeg, own), decodeImage(jpeg, own)])
    expect(pixels.map((each) => pixels.indexOf(each))).toEqual([0, 1, 1, 1, 1, 5])
    endIt(true)
    await decodeImage(jpeg, own)
    expect(pixels.at(-1)).not.toBe(pixels[0])
  })

  it('and that fails, sharp says what of it', async () => {
    decodeBy(() => Promise.reject(new Error('no memory')))
    const { ours, sharps } = await byBoth(await jpegOf(320, 300), size)
    expect(difference(ours.pixels, sharps.pixels)).toEqual({ mean: 0, most: 0 })
  })
})

describe('the decoder of plain JPEGs', () => {
  afterEach(() => void vi.restoreAllMocks())

  it.each([100, 60_000, -1])('is not there where its library was cut short, to %i bytes', async (end) => {
    const library = readFileSync(jpegLibrary())
    const root = temporaryFolder({})
    const cut = join(root, relative(dirname(dirname(dirname(jpegLibrary()))), jpegLibrary()))
    mkdirSync(dirname(cut), { recursive: true })
    writeFileSync(cut, library.subarray(0, end))
    findsBy(() => join(root, 'package.json'))
    expect(await freshDecoder()).toBeNull()
    writeFileSync(cut, library)
    expect(await freshDecoder()).not.toBeNull()
  })

  /** How other packages are found from then on. */
  const findsBy = (resolve: () => string) =>
    vi.spyOn(ownPackage.requireFromPackage, 'resolve').mockImplementation(resolve)

  let instances = 0
  /** The decoder as a process finds it that has not looked for it yet. */
  const freshDecoder = async () => {
    const path = `../../src/features/image/image-decoders.ts?${++instances}`
    const fresh: typeof import('../../src/features/image/image-decoders.ts') = await import(
      /* @vite-ignore */ path
    )
    return fresh.jpegDecoder()
  }

  it('is in the binary of its package on macOS, whatever number that has', () => {
    const folder = temporaryFolder({ 'node-napi-v10.node': '' })
    expect(jpegLibraryIn(folder, 'darwin')).toBe(join(folder, 'node-napi-v10.node'))
    expect(() => jpegLibraryIn(temporaryFolder({ 'read.me': '' }), 'darwin')).toThrow('has no binary')
  })

  it('is not there without the addon', async () => {
    vi.spyOn(addon, 'loadBinding').mockReturnValue({ binding: null, reason: 'there is none' })
    expect(await freshDecoder()).toBeNull()
  })

  it('is not there where its package is not installed', async () => {
    findsBy(() => {
      throw new Error('Cannot find module')
    })
    expect(await freshDecoder()).toBeNull()
  })
})

/** As models are given pixels: plane by plane. */
function planesOf(pixels: Uint8Array): Float32Array {
  const plane = pixels.length / 3
  return Float32Array.from(
    { length: pixels.length },
    (_, at) => pixels[3 * (at % plane) + Math.floor(at / plane)]!,
  )
}
