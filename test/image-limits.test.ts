// Alone: it measures the memory of its process.
import { execFileSync } from 'node:child_process'
import { getEventListeners } from 'node:events'
import { open, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32, deflateSync, gzipSync } from 'node:zlib'
import sharp from 'sharp'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { InferenceError } from '../src/errors.ts'
import { inTurn } from '../src/features/image/decode-queue.ts'
import {
  decodeImage,
  imageConcurrency,
  type ImageOptions,
  type ImageSource,
} from '../src/features/image/exports.ts'
import { temporaryFolder } from './triton-repository/temporary.ts'

const size = { width: 2, height: 2 }
const solid = (width: number, height: number) =>
  sharp({ create: { width, height, channels: 3, background: 'red' } })

async function refusal(source: ImageSource, options: Partial<ImageOptions> = {}): Promise<InferenceError> {
  const error: unknown = await decodeImage(source, { ...size, ...options }).then(
    () => expect.unreachable(),
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(InferenceError)
  expect(error).toMatchObject({ code: 'ERR_IMAGE_DECODE' })
  return error as InferenceError
}

/** A PNG that says what it likes about its size. */
function pngOf(width: number, height: number, interlace: 0 | 1): Buffer {
  const chunk = (type: string, data: Buffer): Buffer => {
    const body = Buffer.concat([Buffer.from(type), data])
    const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)]
    length.writeUInt32BE(data.length)
    check.writeUInt32BE(crc32(body))
    return Buffer.concat([length, body, check])
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([16, 6, 0, 0, interlace], 8)
  const data = deflateSync(Buffer.alloc(100_000))
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', header),
    chunk('IDAT', data),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

describe('an image of more pixels than limitInputPixels', () => {
  it.each([
    ['interlaced', 1],
    ['not interlaced', 0],
  ] as const)('is refused by its header: %s', async (_, interlace) => {
    const before = process.memoryUsage().rss
    expect(await refusal(pngOf(16_383, 16_383, interlace))).toMatchObject({
      argument: 'limitInputPixels',
      expected: 'at most 64000000 pixels',
      received: '268402689 pixels (16383 x 16383)',
      message: expect.stringMatching(
        /^limitInputPixels: expected an image of at most 64000000 pixels, received Buffer of \d+ bytes: 268402689 pixels/,
      ),
    })
    expect(process.memoryUsage().rss - before).toBeLessThan(100e6)
  })

  it.each(['jpeg', 'png', 'webp', 'gif', 'tiff', 'avif'] as const)(
    'is refused as %s, and one of exactly that many is not',
    async (format) => {
      const bytes = await solid(40, 25)[format]().toBuffer()
      expect((await decodeImage(bytes, { ...size, limitInputPixels: 1000 })).dims).toEqual([1, 3, 2, 2])
      expect(await refusal(bytes, { limitInputPixels: 999 })).toMatchObject({
        argument: 'limitInputPixels',
        received: '1000 pixels (40 x 25)',
      })
      const crop = { shorterSide: 2 }
      expect(await refusal(bytes, { limitInputPixels: 999, crop })).toMatchObject({
        argument: 'limitInputPixels',
      })
    },
  )

  it('is told by the one frame of an animation that is decoded', async () => {
    const frames = sharp(Buffer.alloc(3 * 10 * 40, 9), {
      raw: { width: 10, height: 40, channels: 3, pageHeight: 4 },
    })
    const bytes = await frames.gif({ delay: Array(10).fill(100) }).toBuffer()
    expect((await decodeImage(bytes, { ...size, limitInputPixels: 40 })).dims).toEqual([1, 3, 2, 2])
    expect(await refusal(bytes, { limitInputPixels: 39 })).toMatchObject({ received: '40 pixels (10 x 4)' })
  })
})

describe('an image of more bytes than limitInputBytes', () => {
  it('is refused as bytes and as a file', async () => {
    const bytes = await solid(8, 8).png().toBuffer()
    const path = join(temporaryFolder({}), 'red.png')
    await writeFile(path, bytes)
    for (const source of [bytes, path]) {
      expect((await decodeImage(source, { ...size, limitInputBytes: bytes.length })).dims).toEqual([
        1, 3, 2, 2,
      ])
      expect(await refusal(source, { limitInputBytes: bytes.length - 1 })).toMatchObject({
        argument: 'limitInputBytes',
        expected: `at most ${bytes.length - 1} bytes`,
        received: `${bytes.length} bytes`,
      })
    }
  })

  it('is not read at all', async () => {
    const path = join(temporaryFolder({ 'huge.png': '' }), 'huge.png')
    await truncate(path, 8 * 2 ** 30)
    const before = process.memoryUsage().rss
    expect(await refusal(path)).toMatchObject({
      argument: 'limitInputBytes',
      received: `${8 * 2 ** 30} bytes`,
    })
    expect(process.memoryUsage().rss - before).toBeLessThan(100e6)
  })
})

describe('a format', () => {
  const svg =
    '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"><rect width="4" height="4" fill="#010203"/></svg>'
  const pattern = (level: number): string =>
    level === 0
      ? '<pattern id="p0" width="1" height="1"><rect width="1" height="1"/></pattern>'
      : `${pattern(level - 1)}<pattern id="p${level}" width="1" height="1">${`<rect width="9" height="9" fill="url(#p${level - 1})"/>`.repeat(9)}</pattern>`

  it.each([
    ['SVG', Buffer.from(svg)],
    [
      'SVG after a declaration and a comment',
      Buffer.from(`<?xml version="1.0"?><!-- ${'-'.repeat(500)}x -->${svg}`),
    ],
    ['SVG in gzip', gzipSync(svg)],
    [
      'SVG that would draw for minutes',
      Buffer.from(
        `<svg xmlns="http://www.w3.org/2000/svg" width="900" height="900">${pattern(9)}<rect width="900" height="900" fill="url(#p9)"/></svg>`,
      ),
    ],
  ])('is not let in unless formats names it: %s', async (_, bytes) => {
    expect(await refusal(bytes)).toMatchObject({
      argument: 'formats',
      expected: 'one of the formats jpeg, png, webp, gif, tiff, heif',
      received: 'svg',
    })
  })

  it('is let in by its name', async () => {
    const { data } = await decodeImage(Buffer.from(svg), { ...size, formats: ['svg'], layout: 'nhwc' })
    expect([...(data as Float32Array)].slice(0, 3)).toEqual([1, 2, 3])
    const png = await solid(3, 3).png().toBuffer()
    expect(await refusal(png, { formats: ['jpeg', 'svg'] })).toMatchObject({
      argument: 'formats',
      received: 'png',
    })
  })

  it.each([
    ['PDF', '%PDF-1.7\n'],
    ['PPM', 'P6 1 1 255 abc'],
    ['BMP', 'BM      '],
    ['an ImageMagick script', 'push graphic-context'],
    ['SVG with the beginning of a GIF', `GIF89a${svg}`],
    ['SVG with the beginning of a WebP', `RIFF0000WEBP${svg}`],
    ['SVG in a comment that looks like a file type box', `<!--ftypheic-->${' '.repeat(2000)}${svg}`],
    ['a HEIF of four bytes', '\0\0\0\x08ftyp'],
  ])('is not guessed: %s', async (_, text) => {
    expect(await refusal(Buffer.from(text, 'latin1'))).toMatchObject({
      argument: expect.stringMatching(/^source$|^formats$/),
    })
  })

  it.each(['jpeg', 'png', 'webp', 'gif', 'tiff', 'avif'] as const)(
    'is known by its first bytes: %s',
    async (format) => {
      const bytes = await solid(4, 4)[format]().toBuffer()
      const name = format === 'avif' ? 'heif' : format
      expect((await decodeImage(bytes, { ...size, formats: [name] })).dims).toEqual([1, 3, 2, 2])
    },
  )
})

describe.skipIf(process.platform === 'win32')('a path that is no regular file', () => {
  it('is refused at once, be it a FIFO, a device or a folder', async () => {
    const folder = temporaryFolder({})
    const fifo = join(folder, 'fifo')
    execFileSync('mkfifo', [fifo])
    const all = await Promise.all(
      [fifo, fifo, fifo, fifo, fifo, '/dev/zero', folder].map((path) => refusal(path)),
    )
    expect(all.map(({ cause }) => (cause as { code: string }).code)).toEqual([
      ...Array<string>(6).fill('EINVAL'),
      'EISDIR',
    ])
    expect(all[0]!.message).toContain('it is a pipe, a socket or a device, not a regular file')
    expect((await readFile(new URL(import.meta.url))).length).toBeGreaterThan(0) // libuv's threads are free
  })

  it('is refused also when somebody writes into it', async () => {
    const fifo = join(temporaryFolder({}), 'fifo')
    execFileSync('mkfifo', [fifo])
    const writer = await open(fifo, 'r+')
    await writer.write(await solid(3, 3).png().toBuffer())
    expect(await refusal(fifo)).toMatchObject({ argument: 'source' })
    await writer.close()
  })
})

describe('an image that takes longer than timeoutMs', () => {
  it('is refused then', async () => {
    const bytes = await solid(3000, 3000).png().toBuffer()
    expect(await refusal(bytes, { timeoutMs: 0.5 })).toMatchObject({
      argument: 'timeoutMs',
      expected: 'at most 0.5 ms of reading and decoding',
    })
    const before = imageConcurrency()
    imageConcurrency(1)
    await inTurn(async () => {}) // when it has its turn the late one is done
    imageConcurrency(before)
  })
})

describe('the line of images', () => {
  const before = imageConcurrency()
  afterEach(() => {
    vi.useRealTimers()
    imageConcurrency(before)
  })
  const gate = () => {
    let open = (): void => {}
    const passed = new Promise<void>((resolve) => (open = resolve))
    return { open, passed }
  }
  const limits = { timeoutMs: 1000, timedOut: () => new Error('too late') }

  it('answers a task that is late, and keeps its place until it is done', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    imageConcurrency(1)
    const { open, passed } = gate()
    const started: string[] = []
    const late = inTurn(() => (started.push('late'), passed), limits)
    const next = inTurn(async () => void started.push('next'), limits)
    const refused = expect(late).rejects.toThrow('too late')
    await vi.advanceTimersByTimeAsync(1000)
    await refused
    await vi.advanceTimersByTimeAsync(10_000) // waiting costs the next one nothing
    expect(started).toEqual(['late'])
    open()
    await next
    expect(started).toEqual(['late', 'next'])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('lets an aborted call go: before it starts without a trace, and while it runs at once', async () => {
    imageConcurrency(1)
    const { open, passed } = gate()
    const running = new AbortController()
    const waiting = new AbortController()
    const started: string[] = []
    const first = inTurn(() => (started.push('first'), passed), { ...limits, signal: running.signal })
    const second = inTurn(async () => void started.push('second'), { ...limits, signal: waiting.signal })
    const third = inTurn(async () => void started.push('third'), limits)
    waiting.abort('changed my mind')
    await expect(second).rejects.toBe('changed my mind')
    running.abort('all of it')
    await expect(first).rejects.toBe('all of it')
    await expect(inTurn(async () => {}, { ...limits, signal: running.signal })).rejects.toBe('all of it')
    open()
    await third
    expect(started).toEqual(['first', 'third'])
  })

  it('puts one listener on a signal, however many images share it', async () => {
    const warnings: Error[] = []
    const onWarning = (warning: Error) => warnings.push(warning)
    process.on('warning', onWarning)
    const bytes = await solid(3, 3).png().toBuffer()
    const { signal } = new AbortController()
    await Promise.all(Array.from({ length: 30 }, () => decodeImage(bytes, { ...size, signal })))
    await new Promise(setImmediate)
    process.off('warning', onWarning)
    expect(warnings).toEqual([])
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  it('rejects decodeImage with the reason of its signal', async () => {
    const reason = new Error('shutting down')
    await expect(decodeImage(pngOf(1, 1, 0), { ...size, signal: AbortSignal.abort(reason) })).rejects.toBe(
      reason,
    )
  })
})

describe('limits and results that are out of the question', () => {
  it.each([
    ['limitInputPixels', { limitInputPixels: 0 }],
    ['limitInputPixels', { limitInputPixels: Infinity }],
    ['limitInputPixels', { limitInputPixels: false }],
    ['limitInputBytes', { limitInputBytes: -1 }],
    ['timeoutMs', { timeoutMs: 0 }],
    ['timeoutMs', { timeoutMs: 2 ** 31 }],
    ['formats', { formats: [] }],
    ['formats', { formats: ['pdf'] }],
    ['formats', { formats: 'png' }],
    ['signal', { signal: new AbortController() }],
    ['height', { width: 16_383, height: 16_383 }],
    ['options', new Map([['width', 2]])],
    ['crop', { crop: new Date() }],
  ])('are refused: %s', async (argument, options) => {
    const given = options instanceof Map ? options : { ...size, ...options }
    await expect(decodeImage(Buffer.alloc(1), given as never)).rejects.toMatchObject({
      name: 'InferenceError',
      code: 'ERR_INVALID_ARG',
      argument,
    })
  })

  it("are refused with what the caller's own code has thrown as the cause", async () => {
    const thrown = new Error('from a getter')
    const fails = () => {
      throw thrown
    }
    const own = { code: 'ERR_INVALID_ARG', cause: thrown }
    await expect(
      decodeImage(
        Buffer.alloc(1),
        Object.defineProperty({ ...size }, 'fit', { get: fails, enumerable: true }),
      ),
    ).rejects.toMatchObject(own)
    await expect(
      decodeImage(Buffer.alloc(1), size, new Proxy({}, { ownKeys: fails }) as never),
    ).rejects.toMatchObject(own)
    await expect(
      decodeImage(Buffer.alloc(1), { ...size, mean: new Proxy([1, 2, 3], { get: fails }) }),
    ).rejects.toMatchObject(own)
    await expect(decodeImage(new Proxy(new Uint8Array(9), { get: fails }), size)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'source',
    })
    const gone = new ArrayBuffer(8)
    structuredClone(gone, { transfer: [gone] })
    await expect(decodeImage(gone, size)).rejects.toMatchObject({
      code: expect.stringMatching(/^ERR_(IMAGE_DECODE|INVALID_ARG)$/),
    })
  })
})

describe("the application's settings of sharp", () => {
  it('stay as they are', async () => {
    sharp.cache({ memory: 7, files: 3, items: 11 })
    sharp.concurrency(3)
    await decodeImage(await solid(4, 4).png().toBuffer(), size)
    const { memory, files, items } = sharp.cache() as {
      memory: { max: number }
      files: { max: number }
      items: { max: number }
    }
    expect([memory.max, files.max, items.max, sharp.concurrency()]).toEqual([7, 3, 11, 3])
  })

  it('may include a cache: other bytes in the same memory are another image', async () => {
    sharp.cache({ memory: 50, files: 20, items: 100 })
    const [dark, bright] = await Promise.all(
      ['#010101', '#c8c8c8'].map((background) =>
        sharp({ create: { width: 4, height: 4, channels: 3, background } })
          .png({ compressionLevel: 0 })
          .toBuffer(),
      ),
    )
    const memory = Buffer.alloc(dark!.length)
    const shown: unknown[] = []
    for (const bytes of [dark!, bright!]) {
      expect(bytes.copy(memory)).toBe(memory.length)
      shown.push((await decodeImage(memory, size)).data[0])
    }
    expect(shown).toEqual([1, 200])
  })
})
