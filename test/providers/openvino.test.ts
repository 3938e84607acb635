// Alone: it changes the environment of its process.
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { InferenceEngine, type EngineOptions, type Model, type ModelOptions } from '../../src/index.ts'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import { decodeImage } from '../../src/features/image/exports.ts'
import { mlp, resnet50 } from '../models/networks.ts'
import { largestBatch } from '../support/against-plain.ts'
import { load, ownEngine } from '../support/open.ts'
import { feedsOf, runPlain, type Samples } from '../support/plain.ts'
import { noise } from '../support/samples.ts'
import { hasShared, inParallel, missingShared, sharedLines, sharedPath } from '../support/shared.ts'
import { openVinoPlugin } from './libraries.ts'

const native = openNativeOrt()
const { library, missing } = openVinoPlugin()
const skips = native.reason === undefined ? missing : ' (skipped: no native executor)'
const engineWith = (options: EngineOptions = {}) =>
  ownEngine({ cpuWorkers: 2, providers: { openvino: { library: library! } }, ...options })
const kind = { instanceGroup: [{ kind: 'openvino' }] }

beforeEach(() => void vi.stubEnv('ZEROHOP_EXECUTOR', '')) // whatever the other tests run with

/** The largest difference of an answer from plain ONNX Runtime's, relative to the largest value of each row. */
async function difference(model: Model, request: Samples, output: string): Promise<number> {
  const [own, plain] = await Promise.all([
    model.infer(feedsOf(request)),
    runPlain(model.metadata.path, request),
  ])
  const [rows = 0] = plain[output]!.dims
  const [a, b] = [own[output]!.data as Float32Array, plain[output]!.data as Float32Array]
  const width = b.length / rows
  return Math.max(
    ...Array.from({ length: rows }, (_, row) => {
      const [x, y] = [a.subarray(row * width, (row + 1) * width), b.subarray(row * width, (row + 1) * width)]
      return Math.max(...y.map((value, index) => Math.abs(value - x[index]!))) / Math.max(...y.map(Math.abs))
    }),
  )
}

describe.skipIf(skips !== '')(`OpenVINO as a plugin${skips}`, () => {
  it('is what a model runs on, and says so', async () => {
    const engine = engineWith()
    const model = await load(engine, resnet50(), {
      ...kind,
      maxBatchSize: 8,
      executionProviders: [{ name: 'openvino', precision: 'float32' }, 'cpu'],
    })
    expect(await difference(model, { input: noise([2, 3, 224, 224]) }, 'output')).toBeLessThan(1e-4)
    const { executor, providers } = engine.capabilities()
    expect(executor).toMatchObject({ kind: 'native', reason: 'the default' })
    expect(providers[0]).toMatchObject({
      name: 'openvino',
      available: true,
      devices: expect.arrayContaining([{ device: 'cpu', name: expect.any(String) }]),
    })
  })

  it('computes in its own choice of numbers, within the documented 2 %', async () => {
    const model = await load(engineWith(), resnet50(), { ...kind, maxBatchSize: 8 })
    expect(model.metadata.joining).toMatchObject({
      rows: 'declared',
      how: 'declared',
      largestDifference: null,
    })
    expect(await difference(model, { input: noise([3, 3, 224, 224]) }, 'output')).toBeLessThan(0.02)
  })

  it('joins requests of many callers on two instances, which share a session', async () => {
    const model = await load(engineWith(), mlp(), {
      maxBatchSize: 16,
      instanceGroup: [{ kind: 'openvino', count: 2 }],
    })
    const requests = Array.from({ length: 200 }, (_, index): Samples => ({
      input: noise([1 + (index % 3), 64]),
    }))
    const found = await inParallel(32, requests, (request) => difference(model, request, 'output'))
    expect(Math.max(...found)).toBeLessThan(0.02)
    expect(largestBatch(model)).toBeGreaterThan(1)
  })

  it('is one for all engines that name the same library, and refused under a name that has another', async () => {
    await Promise.all([engineWith(), engineWith()].map((engine) => load(engine, mlp(), kind)))
    const other = engineWith({ providers: { second: { library: library! } } })
    await expect(other.load('m', { path: mlp(), instanceGroup: [{ kind: 'second' }] })).rejects.toMatchObject(
      {
        code: 'ERR_INVALID_ARG',
        argument: 'options.providers.second.library',
        message: expect.stringContaining('under the name openvino already'),
      },
    )
  })

  it('can be tried beforehand, and is used rather than what is listed after it', async () => {
    const engine = engineWith()
    const [openVino] = await engine.probeProviders()
    expect(openVino).toMatchObject({
      name: 'openvino',
      available: true,
      devices: expect.arrayContaining([{ device: 'cpu', name: expect.any(String) }]),
    })
    const { metadata } = await load(engine, mlp(), {
      executionProviders: [{ name: 'openvino', required: true }, 'cpu'],
    })
    expect(metadata.executionProviders).toEqual([
      { name: 'openvino', used: true, reason: null },
      { name: 'cpu', used: true, reason: null },
    ])
  })

  it.each<[string, ModelOptions['executionProviders'], object]>([
    [
      'a device that is not there',
      [{ name: 'openvino', device: 'npu' }, 'cpu'],
      { code: 'ERR_MODEL_CONFIG', argument: 'executionProviders.openvino.device' },
    ],
    [
      'an option of a wrong type',
      [{ name: 'openvino', num_streams: [] }],
      { code: 'ERR_MODEL_CONFIG', argument: 'executionProviders.openvino.num_streams' },
    ],
    [
      'a precision that there is not',
      [{ name: 'openvino', precision: 'int4' }],
      { code: 'ERR_MODEL_CONFIG', argument: 'executionProviders.openvino.precision' },
    ],
    [
      'a property that OpenVINO does not know',
      [{ name: 'openvino', NO_SUCH: 1 }, 'cpu'],
      { code: 'ERR_MODEL_LOAD', message: expect.stringContaining('NO_SUCH') },
    ],
  ])('refuses %s', async (_, executionProviders, refusal) => {
    await expect(engineWith().load('m', { path: mlp(), executionProviders })).rejects.toMatchObject(refusal)
  })

  it('has options of the engine, unless a model gives others', async () => {
    const engine = new InferenceEngine({
      providers: { openvino: { library: library!, options: { NO_SUCH: 1 } } },
    })
    await expect(engine.load('m', { path: mlp(), ...kind })).rejects.toMatchObject({ code: 'ERR_MODEL_LOAD' })
    await engine.destroy()
  })

  describe.skipIf(!hasShared)(`with published models${missingShared}`, () => {
    it('reads all 62 digits, in batches', async () => {
      const model = await load(engineWith(), sharedPath('models/mnist/cnn_mnist.onnx'), kind)
      const digits = sharedLines('models/mnist/mnist_test_head.libsvm').map((line) => {
        const [label, ...pixels] = line.trim().split(' ')
        const image = new Float32Array(28 * 28)
        for (const pixel of pixels) image[Number(pixel.split(':')[0]) - 1] = Number(pixel.split(':')[1])
        return { label: Number(label), image }
      })
      const read = await inParallel(16, digits, async ({ image }) => {
        const [scores] = Object.values(await model.infer({ input_image: image }))
        return (scores!.data as Float32Array).indexOf(Math.max(...(scores!.data as Float32Array)))
      })
      expect(read).toEqual(digits.map(({ label }) => label))
      expect(largestBatch(model)).toBeGreaterThan(1)
    })

    it.each([
      ['float32', 1e-3],
      ['bfloat16', 0.06],
    ] as const)(
      'agrees with SqueezeNet elsewhere on every class, in %s within %d',
      async (precision, limit) => {
        const engine = engineWith({ providers: { openvino: { library: library!, precision } } })
        const model = await load(engine, sharedPath('models/squeezenet/model.onnx'), kind)
        const reference = sharedLines('models/squeezenet/reference_fish.csv')
          .slice(1)
          .map((line) => Number(line.split(',')[1]))
        const fish = await decodeImage(sharedPath('images/fish.png'), {
          width: 224,
          height: 224,
          channels: 'bgr',
        })
        for (const answer of await Promise.all(
          Array.from({ length: 4 }, () => model.infer({ data_0: fish })),
        )) {
          const scores = answer['softmaxout_1']!.data as Float32Array
          expect(Math.max(...reference.map((score, index) => Math.abs(score - scores[index]!)))).toBeLessThan(
            limit,
          )
          expect(scores.indexOf(Math.max(...scores))).toBe(reference.indexOf(Math.max(...reference)))
        }
      },
    )
  })
})
