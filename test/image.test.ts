import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os, { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { InferenceSession } from 'onnxruntime-node'
import sharp from 'sharp'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  decodeImage,
  imageConcurrency,
  imageDims,
  type ImageOptions,
  type ImageSource,
  type ImageTarget,
} from '../src/features/image/exports.ts'
import * as imageDecoders from '../src/features/image/image-decoders.ts'
import { toSmallFloat } from '../src/tensor/small-floats.ts'
import { inTurn } from '../src/features/image/decode-queue.ts'
import { replaceBuiltIn } from './support/built-in.ts'

const SIZE = { width: 3, height: 2 }
const PIXELS = [
  [255, 0, 7],
  [0, 255, 100],
  [1, 2, 3],
  [10, 20, 30],
  [250, 128, 127],
  [64, 32, 16],
] as const
const RGB = Buffer.from(PIXELS.flat())
const image = (pixels: Uint8Array | Uint16Array, channels: 1 | 2 | 3 | 4, size = SIZE) =>
  sharp(pixels, { raw: { ...size, channels } })
const png = (pixels = RGB, channels: 1 | 2 | 3 | 4 = 3): Promise<Buffer> =>
  image(pixels, channels).png().toBuffer()
const decoded = async (source: ImageSource, options: Partial<ImageOptions> = {}): Promise<number[]> =>
  Array.from((await decodeImage(source, { ...SIZE, layout: 'nhwc', ...options })).data as Float32Array)
const luma = ([r, g, b]: readonly number[]): number => Math.round(0.299 * r! + 0.587 * g! + 0.114 * b!)

let folder: string
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), 'zerohop-image-'))))
afterAll(() => rm(folder, { recursive: true }))

describe('decodeImage', () => {
  const halves = (values: number[]): number[] => values.map((value) => toSmallFloat('float16', value))
  const saturated = (low: number, high: number) => (values: number[]) =>
    values.map((value) => Math.min(high, Math.max(low, Math.round(value))))
  const types = {
    float32: [Float32Array, (values: number[]) => values.map(Math.fround)],
    float64: [Float64Array, (values: number[]) => values],
    float16: [Uint16Array, halves],
    uint8: [Uint8Array, saturated(0, 255)],
    int8: [Int8Array, saturated(-128, 127)],
    int32: [Int32Array, saturated(-(2 ** 31), 2 ** 31 - 1)],
  } as const
  for (const channels of ['rgb', 'bgr', 'gray'] as const) {
    for (const layout of ['nchw', 'nhwc'] as const) {
      for (const [dtype, [kind, convert]] of Object.entries(types) as [
        keyof typeof types,
        (typeof types)['float32'],
      ][]) {
        it(`gives every pixel exactly as ${channels} ${layout} ${dtype}`, async () => {
          const order = { rgb: [0, 1, 2], bgr: [2, 1, 0], gray: [0] }[channels]
          const mean = [1.5, -20, 90].slice(0, order.length)
          const std = [1, 2.5, -3].slice(0, order.length)
          const target = PIXELS.map((pixel) =>
            channels === 'gray' ? [luma(pixel)] : order.map((from) => pixel[from]!),
          )
          const value = (pixel: number[], c: number): number => (pixel[c]! * 0.75 - mean[c]!) / std[c]!
          const values =
            layout === 'nhwc'
              ? target.flatMap((pixel) => order.map((_, c) => value(pixel, c)))
              : order.flatMap((_, c) => target.map((pixel) => value(pixel, c)))
          const options = { ...SIZE, channels, layout, dtype, scale: 0.75, mean, std }
          const tensor = await decodeImage(await png(), options)
          expect(tensor.type).toBe(dtype)
          expect(tensor.dims).toEqual(layout === 'nchw' ? [1, order.length, 2, 3] : [1, 2, 3, order.length])
          expect(imageDims(options)).toEqual(tensor.dims)
          const { buffer, byteOffset, length } = tensor.data as Float32Array
          expect(Array.from(new kind(buffer as ArrayBuffer, byteOffset, length))).toEqual(convert(values))
        })
      }
    }
  }

  it('rounds float16 to the nearest number, ties to even', () => {
    const known = [
      [1, 0x3c00],
      [-2, 0xc000],
      [0.1, 0x2e66],
      [65504, 0x7bff],
      [65519, 0x7bff],
      [65520, 0x7c00],
      [2 ** -14, 0x400],
      [2 ** -24, 1],
      [2 ** -25, 0],
      [3 * 2 ** -25, 2],
      [2049, 0x6800],
      [2051, 0x6802],
      [0, 0],
      [-0, 0x8000],
      [Number.NaN, 0x7e00],
    ] as const
    expect(halves(known.map(([value]) => value))).toEqual(known.map(([, bits]) => bits))
  })

  it('leaves pixels as they are by default, as float32 RGB planes', async () => {
    const tensor = await decodeImage(await png(), SIZE)
    expect(tensor.type).toBe('float32')
    expect(Array.from(tensor.data as Float32Array)).toEqual(
      [0, 1, 2].flatMap((c) => PIXELS.map((pixel) => pixel[c])),
    )
  })

  it('takes one mean and std for all channels', async () => {
    expect(await decoded(await png(), { mean: 5, std: 2 })).toEqual([...RGB].map((pixel) => (pixel - 5) / 2))
  })

  it('reads a path, a file: URL, a Buffer, a Uint8Array, a shared one and an ArrayBuffer alike', async () => {
    const bytes = await png()
    const path = join(folder, 'a b.png')
    await writeFile(path, bytes)
    const shared = new Uint8Array(new SharedArrayBuffer(bytes.length))
    shared.set(bytes)
    const within = new Uint8Array([9, ...bytes, 9]).subarray(1, -1)
    for (const source of [
      path,
      pathToFileURL(path),
      pathToFileURL(path).href,
      bytes,
      within,
      shared,
      Uint8Array.from(bytes).buffer,
    ]) {
      expect(await decoded(source)).toEqual([...RGB])
    }
  })

  it('writes one row into a given array and nothing beside it, also in shared memory', async () => {
    const batch = new Float32Array(new SharedArrayBuffer(4 * 56)).fill(-1)
    await decodeImage(await png(), { ...SIZE, layout: 'nhwc' }, { into: batch, offset: 20 })
    expect(Array.from(batch)).toEqual([...Array(20).fill(-1), ...RGB, ...Array(18).fill(-1)])
  })

  it('turns the image as its EXIF orientation says', async () => {
    const turned = await image(RGB, 3).png().withMetadata({ orientation: 6 }).toBuffer()
    const at = (index: number): readonly number[] => PIXELS[index]!
    expect(await decoded(turned, { width: 2, height: 3 })).toEqual([3, 0, 4, 1, 5, 2].flatMap(at))
  })

  it('puts transparent pixels on black, or on the background it is given', async () => {
    const clear = await png(Buffer.from([1, 2, 3, 0, ...Array(5).fill([4, 5, 6, 255]).flat()]), 4)
    expect((await decoded(clear)).slice(0, 6)).toEqual([0, 0, 0, 4, 5, 6])
    expect((await decoded(clear, { background: [9, 8, 7] })).slice(0, 6)).toEqual([9, 8, 7, 4, 5, 6])
    const grey = await image(Buffer.from([50, 0, ...Array(5).fill([60, 255]).flat()]), 2)
      .toColourspace('b-w')
      .png()
      .toBuffer()
    expect((await decoded(grey, { background: [9, 8, 7] })).slice(0, 6)).toEqual([9, 8, 7, 60, 60, 60])
  })

  it('decodes greyscale, palette and 16-bit images', async () => {
    const grey = await image(Buffer.from([0, 50, 100, 150, 200, 255]), 1)
      .toColourspace('b-w')
      .png()
      .toBuffer()
    expect((await sharp(grey).metadata()).channels).toBe(1)
    expect(await decoded(grey, { channels: 'gray' })).toEqual([0, 50, 100, 150, 200, 255])
    expect((await decoded(grey)).slice(3, 6)).toEqual([50, 50, 50])
    expect(await decoded(await image(RGB, 3).png({ palette: true }).toBuffer())).toEqual([...RGB])
    for (const [space, channels] of [
      ['rgb16', 3],
      ['grey16', 1],
    ] as const) {
      const samples = Uint16Array.from({ length: 6 * channels }, (_, index) => (index * 10 + 5) * 257)
      const deep = await image(samples, channels).toColourspace(space).png().toBuffer()
      expect((await sharp(deep).metadata()).depth).toBe('ushort')
      expect(await decoded(deep, { channels: channels === 1 ? 'gray' : 'rgb' })).toEqual(
        [...samples].map((sample) => sample / 257),
      )
    }
  })

  it('converts CMYK to RGB', async () => {
    const flat = Buffer.from(Array(6).fill([200, 40, 40]).flat())
    const cmyk = await image(flat, 3).toColourspace('cmyk').jpeg({ quality: 100 }).toBuffer()
    expect((await sharp(cmyk).metadata()).space).toBe('cmyk')
    const [red, green, blue] = await decoded(cmyk)
    expect(red).toBeGreaterThan(150)
    expect(green).toBeLessThan(90)
    expect(blue).toBeLessThan(90)
  })

  it('takes the first frame of an animated GIF and WebP', async () => {
    const frames = Buffer.from([...Array(6).fill([255, 0, 0]), ...Array(6).fill([0, 0, 255])].flat())
    const animation = sharp(frames, { raw: { width: 3, height: 4, channels: 3, pageHeight: 2 } })
    for (const bytes of [
      await animation.clone().gif().toBuffer(),
      await animation.clone().webp({ lossless: true }).toBuffer(),
    ]) {
      expect((await sharp(bytes).metadata()).pages).toBe(2)
      expect(await decoded(bytes)).toEqual(Array(6).fill([255, 0, 0]).flat())
    }
  })

  describe('resizes', () => {
    const columns = (...greys: number[]): Promise<Buffer> =>
      image(Buffer.from(greys), 1, { width: greys.length, height: 1 })
        .resize(greys.length * 2, 4, { kernel: 'nearest', fit: 'fill' })
        .toColourspace('b-w')
        .png()
        .toBuffer()
    const row = async (options: Partial<ImageOptions>): Promise<number[]> =>
      decoded(await columns(10, 20, 30, 40), {
        height: 4,
        width: 4,
        channels: 'gray',
        kernel: 'nearest',
        ...options,
      })

    it('cover: fills the frame and keeps the centre', async () => {
      expect((await row({})).slice(0, 4)).toEqual([20, 20, 30, 30])
    })
    it('fill: squeezes the whole image into the frame', async () => {
      expect((await row({ fit: 'fill' })).slice(0, 4)).toEqual([10, 20, 30, 40])
    })
    it('contain: shows the whole image between bars of the background, in its colour also beside grey', async () => {
      const whole = await decoded(await columns(10, 20, 30, 40), {
        height: 4,
        width: 4,
        fit: 'contain',
        background: [1, 2, 3],
      })
      expect(whole.slice(0, 12)).toEqual(Array(4).fill([1, 2, 3]).flat())
      expect(whole[12]).toBe(whole[13])
    })
    it('crop: scales the shorter side, then cuts the centre out', async () => {
      expect((await row({ width: 2, height: 2, crop: { shorterSide: 2 } })).slice(0, 2)).toEqual([20, 30])
      expect((await row({ width: 2, height: 2, crop: { shorterSide: 4 } })).slice(0, 2)).toEqual([20, 30])
      const upright = await sharp(await columns(10, 20, 30, 40))
        .rotate(90)
        .toBuffer()
      const cut = await decoded(upright, {
        width: 2,
        height: 2,
        crop: { shorterSide: 2 },
        kernel: 'nearest',
        channels: 'gray',
      })
      expect(cut).toEqual([20, 20, 30, 30])
      const square = await image(Buffer.alloc(121, 77), 1, { width: 11, height: 11 }).png().toBuffer()
      const whole = await decoded(square, {
        width: 15,
        height: 15,
        crop: { shorterSide: 15 },
        channels: 'gray',
      })
      expect(whole).toEqual(Array(225).fill(77))
    })
  })
})

describe('decodeImage refuses with ERR_INVALID_ARG', () => {
  const wrong: [string, string, object][] = [
    ['options.colour', 'an option it does not know', { colour: 1 }],
    ['width', 'a missing width', { width: undefined }],
    ['width', 'a width of 0', { width: 0 }],
    ['height', 'a broken height', { height: 1.5 }],
    ['fit', 'an unknown fit', { fit: 'inside' }],
    ['fit', 'a fit beside crop', { fit: 'fill', crop: { shorterSide: 4 } }],
    ['crop', 'a crop that is a number', { crop: 256 }],
    ['crop.size', 'an unknown name in crop', { crop: { size: 3 } }],
    ['crop.shorterSide', 'a crop smaller than the frame', { crop: { shorterSide: 2 } }],
    ['kernel', 'an unknown kernel', { kernel: 'bilinear' }],
    ['background', 'a background of two numbers', { background: [0, 0] }],
    ['background', 'a background over 255', { background: [0, 0, 256] }],
    ['channels', 'unknown channels', { channels: 'rgba' }],
    ['layout', 'an unknown layout', { layout: 'chwn' }],
    ['dtype', 'an unknown dtype', { dtype: 'bool' }],
    ['scale', 'a scale that is not finite', { scale: Number.NaN }],
    ['mean', 'a mean of the wrong length', { mean: [1, 2] }],
    ['mean', 'a mean that is text', { mean: '0.5' }],
    ['std', 'a std of 0', { std: [1, 0, 1] }],
  ]
  it.each(wrong)('%s: %s', async (argument, _, options) => {
    const refused = decodeImage(await png(), { ...SIZE, ...options } as ImageOptions)
    await expect(refused).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument,
      expected: expect.any(String),
    })
    await expect(refused).rejects.toHaveProperty('received')
  })

  it.each([
    ['options', 'no options', undefined],
    ['options', 'options that are a list', []],
  ])('%s: %s', async (argument, _, options) => {
    await expect(decodeImage(await png(), options as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument,
    })
  })

  it.each([
    ['nothing', undefined],
    ['an empty path', ''],
    ['a number', 7],
    ['a web address', new URL('https://example.org/a.png')],
    ['one as text', 'https://example.org/a.png'],
    ['a data: URL', 'data:image/png;base64,iVBORw0KGgo='],
  ])('source: %s', async (_, source) => {
    await expect(decodeImage(source as never, SIZE)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'source',
    })
  })

  it.each<[string, string, unknown]>([
    ['into', 'an array of another type', { into: new Uint8Array(18) }],
    ['into', 'a plain array', { into: [] }],
    ['offset', 'too little room', { into: new Float32Array(17) }],
    ['offset', 'an offset too far', { into: new Float32Array(20), offset: 3 }],
    ['offset', 'a negative offset', { into: new Float32Array(20), offset: -1 }],
    ['target.start', 'an unknown name', { into: new Float32Array(20), start: 0 }],
  ])('%s: %s', async (argument, _, target) => {
    const refused = decodeImage(await png(), SIZE, target as ImageTarget)
    await expect(refused).rejects.toMatchObject({ code: 'ERR_INVALID_ARG', argument })
  })

  it('into: memory given away while the image is decoded', async () => {
    const into = new Float32Array(18)
    const refused = decodeImage(await png(), SIZE, { into })
    structuredClone(into, { transfer: [into.buffer] })
    await expect(refused).rejects.toMatchObject({ code: 'ERR_INVALID_ARG', argument: 'offset' })
  })
})

describe('decodeImage refuses with ERR_IMAGE_DECODE', () => {
  const refusal = (source: ImageSource): Promise<Error> =>
    decodeImage(source, SIZE).then(
      () => expect.unreachable(),
      (error) => error,
    )

  it('a file that is not there, naming it', async () => {
    const error = await refusal(join(folder, 'no.png'))
    expect(error).toMatchObject({
      code: 'ERR_IMAGE_DECODE',
      argument: 'source',
      received: expect.stringContaining('no.png'),
    })
    expect(error.cause).toMatchObject({ code: 'ENOENT' })
    expect((await refusal('no.png')).message).toBe(
      `source: expected an image file that can be read, received 'no.png': there is no file '${resolve('no.png')}'. ` +
        'Check the path: a relative one starts at the working directory',
    )
    expect((await refusal('x'.repeat(10_000))).message.length).toBeLessThan(1500)
  })
  it('a folder', async () => {
    const error = await refusal(pathToFileURL(folder))
    expect(error).toMatchObject({ code: 'ERR_IMAGE_DECODE', cause: { code: 'EISDIR' } })
    expect(error.message).toMatch(/: it is a directory\. Give the path of an image file, or its bytes$/)
  })
  it('an empty file and an empty buffer', async () => {
    await writeFile(join(folder, 'empty.png'), '')
    for (const source of [join(folder, 'empty.png'), Buffer.alloc(0)]) {
      expect(await refusal(source)).toMatchObject({
        code: 'ERR_IMAGE_DECODE',
        message: expect.stringContaining('it is empty'),
      })
    }
  })
  it('HEIC of a phone, saying what that is', async () => {
    const heic = Buffer.concat([Buffer.from([0, 0, 0, 24]), Buffer.from('ftypheic'), Buffer.alloc(40)])
    expect((await refusal(heic)).message).toMatch(/received Buffer of 52 bytes: it is HEIC, .* send JPEG\. /)
  })
  it('text', async () => {
    const error = await refusal(Buffer.from('this is no image'))
    expect(error).toMatchObject({
      code: 'ERR_IMAGE_DECODE',
      received: 'Buffer of 16 bytes',
      cause: expect.any(Error),
    })
  })
  it.each(['jpeg', 'png', 'webp', 'gif', 'tiff'] as const)('a truncated %s', async (format) => {
    const noise = Buffer.alloc(64 * 64 * 3).map((_, index) => (index * 7919) % 251)
    const whole = await image(noise, 3, { width: 64, height: 64 })[format]().toBuffer()
    expect(await refusal(whole.subarray(0, Math.floor(whole.length * 0.7)))).toMatchObject({
      code: 'ERR_IMAGE_DECODE',
    })
  })
})

describe('imageConcurrency', () => {
  const before = imageConcurrency()
  let instances = 0
  afterEach(() => {
    imageConcurrency(before)
    vi.unstubAllEnvs()
  })

  it('lets no more decode at once than it says, and serves the others in order', async () => {
    imageConcurrency(2)
    const started: number[] = []
    const finish: ((error?: Error) => void)[] = []
    const all = [0, 1, 2, 3].map((index) =>
      inTurn(
        () =>
          new Promise<void>((resolve, reject) => {
            started.push(index)
            finish[index] = (error) => (error ? reject(error) : resolve())
          }),
      ),
    )
    expect(started).toEqual([0, 1])
    finish[1]!(new Error('bad image'))
    await expect(all[1]).rejects.toThrow('bad image')
    await vi.waitFor(() => expect(started).toEqual([0, 1, 2]))
    imageConcurrency(3)
    await vi.waitFor(() => expect(started).toEqual([0, 1, 2, 3]))
    for (const end of finish) end()
    await Promise.allSettled(all)
  })
  it.each([
    ['-1', 4],
    ['0', 4],
    ['NaN', 4],
    ['', 4],
    [undefined, 4],
    ['0.5', 4],
    ['1', 1],
    ['2.9', 2],
    ['1024', 16],
  ])(
    'is by default as many as the thread pool has threads, or there are cores: UV_THREADPOOL_SIZE %s',
    async (threads, expected) => {
      vi.stubEnv('UV_THREADPOOL_SIZE', threads)
      onTestFinished(replaceBuiltIn(os, 'availableParallelism', () => () => 16))
      const path = `../src/features/image/decode-queue.ts?${++instances}`
      const fresh: typeof import('../src/features/image/decode-queue.ts') = await import(
        /* @vite-ignore */ path
      )
      expect(fresh.imageConcurrency()).toBe(expected)
    },
  )
  it('refuses what is no whole number of at least 1', () => {
    expect(() => imageConcurrency(0)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', argument: 'concurrency' }),
    )
  })
})

describe('without the binary of sharp', () => {
  afterEach(() => void vi.doUnmock('sharp'))

  it('importing works, and the first use is refused with ERR_NATIVE_LOAD', async () => {
    vi.doMock('sharp', () => {
      throw new Error('Could not load the "sharp" module')
    })
    const path = '../src/features/image/image-decoders.ts?without'
    const fresh: typeof imageDecoders = await import(/* @vite-ignore */ path)
    const loadSharp = vi.spyOn(imageDecoders, 'loadSharp').mockImplementation(fresh.loadSharp)
    onTestFinished(() => void loadSharp.mockRestore())
    const refused = decodeImage(RGB, SIZE)
    await expect(refused).rejects.toMatchObject({
      code: 'ERR_NATIVE_LOAD',
      message: expect.stringContaining('npm install sharp'),
      cause: expect.any(Error),
    })
  })
})

const shared = new URL('../../shared/', import.meta.url)
const missing = ['models/squeezenet/model.onnx', 'images/fish.png'].find(
  (name) => !existsSync(new URL(name, shared)),
)

describe.skipIf(missing !== undefined)(
  `SqueezeNet${missing ? ` (skipped: no ../shared/${missing})` : ''}`,
  () => {
    let session: InferenceSession
    let labels: string[]
    const classify = async (name: string): Promise<Float32Array> => {
      const data_0 = await decodeImage(new URL(`images/${name}`, shared), {
        width: 224,
        height: 224,
        channels: 'bgr',
      })
      return (await session.run({ data_0 }))['softmaxout_1']!.data as Float32Array
    }
    beforeAll(async () => {
      session = await InferenceSession.create(await readFile(new URL('models/squeezenet/model.onnx', shared)))
      labels = (await readFile(new URL('models/squeezenet/labels.txt', shared), 'utf8')).trim().split('\n')
    })

    it.each([
      ['goldfish.jpg', 'goldfish', 0.9998],
      ['mug.jpg', 'coffee mug', 0.915],
      ['wolves.jpg', 'white wolf', 0.99],
      ['fish.png', 'tench', 0.738],
      ['kitten.jpg', 'tiger cat', 0.47],
      ['dog_torchserve.jpg', 'Great Pyrenees', 0.56],
      ['bus.jpg', 'minibus', 0.48],
    ])('says that %s shows %s', async (name, label, probability) => {
      const probabilities = await classify(name)
      const top = probabilities.indexOf(Math.max(...probabilities))
      expect(labels[top]).toContain(label)
      expect(probabilities[top]).toBeCloseTo(probability, 2)
    })

    it('agrees with the reference output for fish.png to 1e-3', async () => {
      const reference = (await readFile(new URL('models/squeezenet/reference_fish.csv', shared), 'utf8'))
        .trim()
        .split('\n')
        .slice(1)
      const probabilities = await classify('fish.png')
      const off = reference.map((line, index) => Math.abs(Number(line.split(',')[1]) - probabilities[index]!))
      expect(reference).toHaveLength(1000)
      expect(Math.max(...off)).toBeLessThan(1e-3)
    })
  },
)
