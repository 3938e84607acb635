import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { inTurn } from '../../src/features/image/decode-queue.ts'
import { decodeImage, imageConcurrency } from '../../src/features/image/exports.ts'
import { Tensor, type ModelOptions } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { repetitions } from '../support/full.ts'
import { deferred } from '../support/deferred.ts'
import { runsInPlace } from '../support/native.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { outcomeOf } from '../scheduling/outcome.ts'

const engine = sharedEngine()
const folder = fileURLToPath(new URL('../../examples/digits/images/', import.meta.url))
const files = readdirSync(folder)
  .slice(0, repetitions(40, 12))
  .map((file) => folder + file)
const normalised = { scale: 1 / 255, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }
const size = { width: 40, height: 30 }
const rowDims = [3, 30, 40]

const images = (type: 'float32' | 'float16' | 'uint8' = 'float32', config: ModelOptions = {}) =>
  load(engine, small.identity(type, rowDims), { maxBatchSize: 8, ...config })
/** Keeps all places of the decoder until it is called. */
function holdDecoder(): () => void {
  const { promise, resolve } = deferred<void>()
  for (let place = 0; place < imageConcurrency(); place++) void inTurn(() => promise)
  onTestFinished(() => resolve())
  return resolve
}

const bytesOf = ({ data }: { data: unknown }) =>
  Buffer.from(
    (data as Float32Array).buffer,
    (data as Float32Array).byteOffset,
    (data as Float32Array).byteLength,
  )

describe('an image that is decoded into a lease', () => {
  it.each(['float32', 'float16', 'uint8'] as const)(
    'is what decodeImage() gives, in every bit, as %s',
    async (dtype) => {
      const model = await images(dtype)
      const options = dtype === 'uint8' ? { ...size, dtype } : { ...size, ...normalised, dtype }
      await Promise.all(
        files.map(async (file) => {
          const lease = model.lease()
          await decodeImage(file, options, { into: lease })
          const { y } = await lease.infer()
          expect(bytesOf(y!).equals(bytesOf(await decodeImage(file, options)))).toBe(true)
        }),
      )
      expect(model.stats().leases).toMatchObject({ taken: files.length, inferred: files.length })
    },
  )

  it('is one row of several; the others are zeros', async () => {
    const model = await images()
    const lease = model.lease(3)
    await decodeImage(files[0]!, { ...size, ...normalised }, { into: lease, row: 1, input: 'x' })
    const { y } = await lease.infer()
    const elements = 3 * 30 * 40
    const [first, second, third] = [0, 1, 2].map((row) =>
      (y!.data as Float32Array).subarray(row * elements, (row + 1) * elements),
    )
    expect([...new Set([...first!, ...third!])]).toEqual([0])
    expect(
      bytesOf({ data: second }).equals(bytesOf(await decodeImage(files[0]!, { ...size, ...normalised }))),
    ).toBe(true)
  })

  it('has to have memory still, which its holder may have moved away', async () => {
    const model = await load(engine, small.identity('float32', [3, 'H', 'W']), { maxBatchSize: 4 })
    const lease = model.lease(1, { dims: { x: rowDims } })
    const { buffer } = lease.inputs['x']!
    structuredClone(buffer, { transfer: [buffer as ArrayBuffer] })
    await expect(decodeImage(files[0]!, size, { into: lease })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: "input 'x'",
      received: 'an empty or detached buffer',
    })
  })

  it('has to fit, and the lease to be held', async () => {
    const model = await images()
    const lease = model.lease(2)
    const refused = [
      [{ ...size, width: 41 }, {}, 'into'],
      [{ ...size, dtype: 'float16' }, {}, 'dtype'],
      [{ ...size, channels: 'gray' }, {}, 'into'],
      [size, { row: 2 }, 'row'],
      [size, { input: 'z' }, 'input'],
      [size, { offset: 1 }, 'offset'],
    ] as const
    for (const [options, target, argument] of refused) {
      await expect(
        decodeImage(files[0]!, options, { into: lease, ...target } as never),
      ).rejects.toMatchObject({ code: 'ERR_INVALID_ARG', argument })
    }
    const decoding = outcomeOf(decodeImage(files[0]!, size, { into: lease }) as never)
    lease.release()
    expect(await decoding).toBe('ERR_LEASE_ENDED')
  })
})

describe('a model that declares an image input', () => {
  const declared = (image: object = {}, config: ModelOptions = {}) =>
    images('float32', { inputs: [{ name: 'x', image: { ...normalised, ...image } }], ...config })

  it.runIf(runsInPlace)('has the rows of all images that wait where they will be run', async () => {
    const model = await declared({}, { dynamicBatching: { holdUntilQueued: files.length }, maxBatchSize: 1 })
    await Promise.all(files.map((file) => model.infer({ x: readFileSync(file) })))
    expect(model.stats().leases).toMatchObject({
      taken: files.length,
      rowsInPlace: files.length,
      rowsCopied: 0,
    })
  })

  it('takes encoded images, as Buffer and as Uint8Array, of many callers at once', async () => {
    const model = await declared()
    await Promise.all(
      files.map(async (file, index) => {
        const encoded = readFileSync(file)
        const { y } = await model.infer(
          { x: index % 2 === 0 ? encoded : new Uint8Array(encoded) },
          { requestId: file },
        )
        expect(bytesOf(y!).equals(bytesOf(await decodeImage(file, { ...size, ...normalised })))).toBe(true)
      }),
    )
    const { leases, inferenceCount } = model.stats()
    expect(leases).toMatchObject({ taken: files.length, held: 0, inferred: files.length })
    expect(leases.rowsInPlace + leases.rowsCopied).toBe(inferenceCount)
  })

  it('takes pixels as before, and a report, through inferMany() as well', async () => {
    const model = await declared()
    const pixels = await decodeImage(files[0]!, { ...size, ...normalised })
    expect(bytesOf((await model.infer({ x: pixels }))['y']!).equals(bytesOf(pixels))).toBe(true)
    expect(bytesOf((await model.infer({ x: pixels.data }))['y']!).equals(bytesOf(pixels))).toBe(true)
    const { outputs, report } = await model.infer({ x: readFileSync(files[0]!) }, { report: true })
    expect([bytesOf(outputs['y']!).equals(bytesOf(pixels)), report.batchSize]).toEqual([true, 1])
    const sources = files.slice(0, 5).map((file) => ({ x: readFileSync(file) }))
    for await (const { outputs: each } of model.inferMany(sources))
      expect(each!['y']!.dims).toEqual([1, ...rowDims])
  })

  it('refuses what is no image for its own caller alone', async () => {
    const model = await declared({ limitInputBytes: 100_000 })
    const bad = [new Uint8Array(0), Buffer.from('no image'), new Uint8Array(200_000)].map((x) =>
      outcomeOf(model.infer({ x })),
    )
    const good = model.infer({ x: readFileSync(files[0]!) })
    expect(await Promise.all(bad)).toEqual(['ERR_IMAGE_DECODE', 'ERR_IMAGE_DECODE', 'ERR_IMAGE_DECODE'])
    await good
    const { name } = model
    const [message] = [expect.stringMatching(`^input 'x' of model '${name}': expected an image in a format`)]
    for (const x of [Buffer.from('no image'), readFileSync(files[0]!).subarray(0, 20)])
      await expect(model.infer({ x })).rejects.toMatchObject({ model: name, argument: "input 'x'", message })
    await expect(model.infer({ x: new Uint8Array(200_000) })).rejects.toMatchObject({
      model: name,
      argument: 'limitInputBytes',
      message: expect.stringMatching(`^input 'x' of model '${name}': limitInputBytes: expected an image of`),
    })
    expect(
      await outcomeOf(
        model.infer({ x: readFileSync(files[0]!) }, { signal: AbortSignal.abort('withdrawn') }),
      ),
    ).toBe('withdrawn')
    expect(await outcomeOf(model.infer({ x: readFileSync(files[0]!) }, { timeoutMs: -1 }))).toBe(
      'ERR_INVALID_ARG',
    )
    expect(await outcomeOf(model.infer({ x: readFileSync(files[0]!) }, { deadlineMs: 1e-6 }))).toBe(
      'ERR_DEADLINE',
    )
  })

  it('refuses feeds that cannot be read', async () => {
    const model = await declared()
    const x = readFileSync(files[0]!)
    const mine = new Error('mine')
    const thrower = () => {
      throw mine
    }
    const strange = [
      Object.defineProperty({}, 'x', { get: thrower, enumerable: true }),
      Object.defineProperty({ x }, 'y', { get: thrower, enumerable: true }),
      new Proxy({ x }, { ownKeys: thrower }),
    ]
    for (const feeds of strange)
      await expect(model.infer(feeds as never)).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG',
        argument: 'feeds',
        cause: mine,
      })
  })

  it('says what it takes where it is given a path, a promise or an ArrayBuffer', async () => {
    const model = await declared()
    for (const x of [files[0], Promise.resolve(Buffer.alloc(1)), new ArrayBuffer(8)]) {
      await expect(model.infer({ x } as never)).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG',
        argument: "input 'x'",
        expected: 'an encoded image as a Buffer or Uint8Array, or a Tensor',
      })
    }
  })

  it('takes them beside other inputs, which are to be given as ever, and are read by the call', async () => {
    const model = await load(engine, small.raised(rowDims), {
      maxBatchSize: 4,
      inputs: [{ name: 'x', image: {} }, { name: 'by' }],
    })
    const x = readFileSync(files[0]!)
    const feeds = { x, by: Float32Array.of(3) }
    const answer = model.infer(feeds)
    feeds.by = Float32Array.of(5)
    const { data } = await decodeImage(x, size)
    expect((await answer)['y']!.data).toEqual(data.map((value) => value + 3))
    await expect(model.infer({ x })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: "input 'by'",
    })
    await expect(model.infer({ x, by: feeds.by, z: feeds.by })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: "input 'z'",
    })
    const strange = { get x(): never { throw new Error('not today') } } // prettier-ignore
    await expect(model.infer(strange as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'feeds',
    })
  })

  it('waits for the decoder no longer than its request may', async () => {
    const model = await declared()
    const release = holdDecoder()
    const x = readFileSync(files[0]!)
    const late = [
      { timeoutMs: 5 },
      { deadlineMs: 5, timeoutMs: 1000 },
      { timeoutMs: 1000, signal: AbortSignal.abort('withdrawn') },
    ].map((options) => outcomeOf(model.infer({ x }, options)))
    expect(await Promise.all(late)).toEqual(['ERR_TIMEOUT', 'ERR_DEADLINE', 'withdrawn'])
    const controller = new AbortController()
    const withdrawn = outcomeOf(model.infer({ x }, { timeoutMs: 1000, signal: controller.signal }))
    controller.abort('withdrawn')
    expect(await withdrawn).toBe('withdrawn')
    release()
    await model.infer({ x }, { timeoutMs: 5000, deadlineMs: 5000 })
  })

  it('has the time counted that it took until they were decoded, as a part of that of the request', async () => {
    const model = await declared()
    const release = holdDecoder()
    const madeAtMs = performance.now()
    const answer = model.infer({ x: readFileSync(files[0]!) })
    const refused = outcomeOf(model.infer({ x: Buffer.from('none') }))
    const releasedAtMs = performance.now()
    release()
    await answer
    expect(await refused).toBe('ERR_IMAGE_DECODE')
    const { imageDecode, success } = model.stats().inferenceStats
    expect([imageDecode.count, success.count]).toEqual([1, 1])
    expect(imageDecode.ns / 1e6).toBeGreaterThan(releasedAtMs - madeAtMs - 1e-3)
    expect(success.ns).toBeGreaterThan(imageDecode.ns) // of which it is a part
    expect(success.ns / 1e6).toBeLessThan(performance.now() - madeAtMs + 1e-3)
  })

  it('of any length, unbatched, or with kept answers takes them as well', async () => {
    const variable = await load(engine, small.identity('float32', [3, 'H', 'W']), {
      maxBatchSize: 4,
      inputs: [{ name: 'x', image: size }],
    })
    expect((await variable.infer({ x: readFileSync(files[0]!) }))['y']!.dims).toEqual([1, ...rowDims])
    const kept = await declared({}, { responseCache: true })
    for (let count = 0; count < 2; count++) await kept.infer({ x: readFileSync(files[0]!) })
    expect(kept.stats().responseCache).toMatchObject({ hits: 1, misses: 1 })
    const whole = await load(engine, small.identityUnbatched('float32', [1, ...rowDims]), {
      inputs: [{ name: 'x', image: {} }],
    })
    expect((await whole.infer({ x: readFileSync(files[0]!) }))['y']!.dims).toEqual([1, ...rowDims])
  })

  it('is refused where rows do not lie one behind the other, and where they have an order', async () => {
    const refused = { code: 'ERR_MODEL_CONFIG', argument: 'inputs[0].image' }
    const along = load(engine, small.identity('float32', ['M', 30, 40]), {
      maxBatchSize: 4,
      inputs: [{ name: 'x', batchAxis: 1, image: size }],
    })
    await expect(along).rejects.toMatchObject(refused)
    const sequences = load(engine, small.identity('float32', rowDims), {
      maxBatchSize: 4,
      sequence: {},
      inputs: [{ name: 'x', image: size }],
    })
    await expect(sequences).rejects.toMatchObject(refused)
  })

  it('goes on over a replacement while images are decoded', async () => {
    const own = ownEngine()
    const config = {
      path: small.identity('float32', rowDims),
      maxBatchSize: 8,
      inputs: [{ name: 'x', image: normalised }],
    }
    const model = await own.load('m', config)
    const answers = files.map((file) => model.infer({ x: readFileSync(file) }))
    await own.load('m', config)
    for (const { y } of await Promise.all(answers)) expect(y!.dims).toEqual([1, ...rowDims])
  })

  it('has them decoded as the model says that answers', async () => {
    const own = ownEngine()
    const config = (scale: number) => ({
      path: small.identity('float32', rowDims),
      maxBatchSize: 8,
      inputs: [{ name: 'x', image: { scale } }],
    })
    const model = await own.load('m', config(1))
    const release = holdDecoder()
    const x = readFileSync(files[0]!)
    const answer = model.infer({ x })
    await own.load('m', config(2))
    release()
    expect(bytesOf((await answer)['y']!).equals(bytesOf(await decodeImage(x, { ...size, scale: 1 })))).toBe(
      true,
    ) // by the one that had accepted it
    expect(
      bytesOf((await own.infer('m', { x }))['y']!).equals(
        bytesOf(await decodeImage(x, { ...size, scale: 2 })),
      ),
    ).toBe(true)
  })

  it.each([
    [{ width: 41 }, 'inputs[0].image'],
    [{ layout: 'nhwc' }, 'inputs[0].image'],
    [{ channels: 'gray', mean: 0, std: 1 }, 'inputs[0].image'],
    [{ scale: 'x' }, 'inputs[0].image.scale'],
    [{ sizes: 3 }, 'inputs[0].image.sizes'],
  ])('is not loaded with an image that does not fit: %j', async (image, argument) => {
    await expect(declared(image)).rejects.toMatchObject({ code: 'ERR_MODEL_CONFIG', argument })
  })
})

describe('the type of a lease', () => {
  it('has the arrays that a signature names', async () => {
    const model = await engine.load<{ inputs: { x: Float32Array | Tensor }; outputs: { y: Tensor } }>(
      'typed',
      { path: small.identity('float32', rowDims), maxBatchSize: 2 },
    )
    const lease = model.lease()
    const x: Float32Array = lease.inputs.x
    // @ts-expect-error: there is no such input
    expect(lease.inputs.z).toBeUndefined()
    x.fill(1)
    const { y } = await lease.infer({ outputs: ['y'] })
    const { outputs, report } = await model.lease().infer({ report: true })
    expect([y.dims, outputs.y.dims, report.batchSize]).toEqual([[1, ...rowDims], [1, ...rowDims], 1])
    // @ts-expect-error: there is no such output
    await expect(model.lease().infer({ outputs: ['z'] })).rejects.toMatchObject({ code: 'ERR_INVALID_ARG' })
  })
})
