import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { Tensor, type InstanceGroup, type Model, type Outputs } from '../src/index.ts'
import { decodeImage } from '../src/features/image/exports.ts'
import { largestBatch } from './support/against-plain.ts'
import { load, sharedEngine } from './support/open.ts'
import { largestDifference } from './support/same.ts'
import { hasShared, inParallel, missingShared, sharedLines, sharedPath } from './support/shared.ts'
import { full } from './support/full.ts'

// Published models whose answers are known from elsewhere, each under 16 concurrent callers.

const callers = 16
const engine = sharedEngine()
const instances = [
  ['one instance', undefined],
  ['two instances', [{ kind: 'cpu', count: 2 }]],
].slice(full ? 0 : 1) as [string, readonly InstanceGroup[] | undefined][]
const grouped = (instanceGroup: readonly InstanceGroup[] | undefined) =>
  instanceGroup === undefined ? {} : { instanceGroup }

describe.skipIf(!hasShared)(`SqueezeNet${missingShared}`, () => {
  const images = [
    ['goldfish.jpg', 'goldfish', 0.9998],
    ['mug.jpg', 'coffee mug', 0.915],
    ['wolves.jpg', 'white wolf', 0.99],
    ['fish.png', 'tench', 0.738],
    ['kitten.jpg', 'tiger cat', 0.47],
    ['bus.jpg', 'minibus', 0.48],
    ['dog_torchserve.jpg', 'Great Pyrenees', 0.56],
  ] as const
  const decode = (image: string) =>
    decodeImage(sharedPath(`images/${image}`), { width: 224, height: 224, channels: 'bgr' })
  const classify = async (model: Model, data_0: Tensor) =>
    (await model.infer({ data_0 }))['softmaxout_1']!.data as Float32Array

  it.each(instances)('knows what is in every image, in batches, with %s', async (_, instanceGroup) => {
    const model = await load(engine, sharedPath('models/squeezenet/model.onnx'), grouped(instanceGroup))
    const labels = sharedLines('models/squeezenet/labels.txt').map(
      (line) => line.slice('n01440764 '.length).split(',')[0],
    )
    const decoded = await Promise.all(images.map(([image]) => decode(image)))
    const twice = [...decoded, ...decoded, ...decoded]
    const answers = await inParallel(callers, twice, (image) => classify(model, image))
    for (const [index, scores] of answers.entries()) {
      const [, label, score] = images[index % images.length]!
      const best = scores.indexOf(Math.max(...scores))
      expect(labels[best]).toBe(label)
      expect(Math.abs(scores[best]! - score)).toBeLessThan(0.01)
    }
    expect(largestBatch(model)).toBeGreaterThan(1)
  })

  it('agrees with another runtime on every class', async () => {
    const model = await load(engine, sharedPath('models/squeezenet/model.onnx'))
    const reference = sharedLines('models/squeezenet/reference_fish.csv')
      .slice(1)
      .map((line) => Number(line.split(',')[1]))
    const fish = await decode('fish.png')
    const answers = await Promise.all(Array.from({ length: 4 }, () => classify(model, fish)))
    for (const scores of answers) expect(largestDifference(scores, reference)).toBeLessThan(1e-3)
    expect(largestBatch(model)).toBeGreaterThan(1)
  })
})

describe.skipIf(!hasShared)(`MNIST${missingShared}`, () => {
  it.each(instances)('reads all 62 digits, in batches, with %s', async (_, instanceGroup) => {
    const model = await load(engine, sharedPath('models/mnist/cnn_mnist.onnx'), grouped(instanceGroup))
    const digits = sharedLines('models/mnist/mnist_test_head.libsvm').map((line) => {
      const [label, ...pixels] = line.trim().split(' ')
      const image = new Float32Array(28 * 28)
      for (const pixel of pixels) image[Number(pixel.split(':')[0]) - 1] = Number(pixel.split(':')[1])
      return { label: Number(label), image }
    })
    expect(digits).toHaveLength(62)
    const read = await inParallel(callers, digits, async ({ image }) => {
      const [scores] = Object.values(await model.infer({ input_image: image }))
      return (scores!.data as Float32Array).indexOf(Math.max(...(scores!.data as Float32Array)))
    })
    expect(read).toEqual(digits.map(({ label }) => label))
    expect(largestBatch(model)).toBeGreaterThan(1)
  })
})

describe.skipIf(!hasShared)(`Silero VAD${missingShared}`, () => {
  const context = 64
  const frame = 512

  /** The probability of speech in each frame; `onFrame` hears of each. */
  async function listen(
    model: Model,
    audio: Float32Array,
    onFrame: (index: number) => void,
    infer: (feeds: Record<string, Tensor>) => Promise<Outputs> = (feeds) => model.infer(feeds),
  ): Promise<number[]> {
    const sr = new Tensor('int64', BigInt64Array.of(16_000n), [])
    const probabilities: number[] = []
    let state = new Tensor('float32', new Float32Array(2 * 128), [2, 1, 128])
    for (let index = 0; index < Math.floor(audio.length / frame); index++) {
      const input = new Float32Array(context + frame)
      const start = index * frame - context
      input.set(audio.subarray(Math.max(0, start), start + context + frame), Math.max(0, -start))
      const outputs = await infer({ input: new Tensor('float32', input, [1, context + frame]), state, sr })
      state = (outputs['stateN'] ?? state) as typeof state
      probabilities.push((outputs['output']!.data as Float32Array)[0]!)
      onFrame(index)
    }
    return probabilities
  }

  it.runIf(full).each(instances)(
    'hears the same in four streams at different places, each with its own state, with %s',
    async (_, instanceGroup) => {
      const model = await load(
        engine,
        sharedPath('models/silero-vad/silero_vad_16k_op15.onnx'),
        grouped(instanceGroup),
      )
      expect(model.metadata.maxBatchSize).toBe(0)
      const wav = readFileSync(sharedPath('models/silero-vad/test.wav'))
      const audio = Float32Array.from(
        { length: (wav.length - 44) / 2 },
        (_unused, index) => wav.readInt16LE(44 + index * 2) / 32768,
      )
      const expected = readFileSync(sharedPath('models/silero-vad/reference_numpy_silero_vad_16k_op15.f32'))
      const reference = Float32Array.from({ length: 200 }, (_unused, index) =>
        expected.readFloatLE(index * 4),
      )

      const streams: Promise<number[]>[] = []
      const start = (): void => {
        // The next stream begins when this one is some way ahead, so that they are never at the same place.
        streams.push(
          listen(model, audio, (index) => {
            if (index === 37 && streams.length < 4) start()
          }),
        )
      }
      start()
      for (let stream = 0; stream < 4; stream++) {
        const probabilities = await streams[stream]!
        expect(largestDifference(probabilities.slice(0, 200), reference)).toBeLessThan(1e-5)
        expect(probabilities.filter((probability) => probability >= 0.5)).toHaveLength(1452)
      }
      expect(model.stats().inferenceStats.success.count).toBe(4 * 1875)
    },
  )

  it.each(instances)(
    'hears 64 streams in batches, each as it is alone, with %s',
    async (_, instanceGroup) => {
      const path = sharedPath('models/silero-vad/silero_vad_16k_op15.onnx')
      const sequence = { state: [{ input: 'state', output: 'stateN' }], maxSequenceIdleMs: 60_000 }
      const model = await load(engine, path, { maxBatchSize: 64, sequence, ...grouped(instanceGroup) })
      const alone = await load(engine, path)
      expect(model.metadata.inputs.map(({ batchAxis }) => batchAxis)).toEqual([undefined, 1, null])
      const wav = readFileSync(sharedPath('models/silero-vad/test.wav'))
      const audio = Float32Array.from(
        { length: (wav.length - 44) / 2 },
        (_unused, index) => wav.readInt16LE(44 + index * 2) / 32768,
      )
      const frames = 40
      const part = (stream: number) => audio.subarray(stream * 9000, stream * 9000 + frames * frame) // each has heard something else
      const heard = await inParallel(
        64,
        Array.from({ length: 64 }, (_unused, stream) => stream),
        async (number) => {
          const stream = model.sequence()
          const told = await listen(
            model,
            part(number),
            () => {},
            (feeds) => stream.infer({ input: feeds['input']!, sr: feeds['sr']! }),
          )
          await stream.end()
          return told
        },
      )
      for (const stream of [0, 1, 31, 63])
        expect(largestDifference(heard[stream]!, await listen(alone, part(stream), () => {}))).toBeLessThan(
          1e-5,
        )
      expect(new Set(heard.map((told) => told.join())).size).toBe(64)
      const { inferenceCount, executionCount } = model.stats()
      expect(inferenceCount).toBe(64 * frames)
      expect(inferenceCount / executionCount).toBeGreaterThan(8)
    },
  )
})

describe.skipIf(!hasShared)(`Triton's examples${missingShared}`, () => {
  const rows = Array.from({ length: 40 }, (_, row) => row)
  const a = (row: number) => Array.from({ length: 16 }, (_, index) => row + index)
  const b = (row: number) => Array.from({ length: 16 }, (_, index) => (row * index) % 50)
  const feeds: [string, (values: number[]) => Int32Array | Int8Array | string[]][] = [
    ['simple', (values) => Int32Array.from(values)],
    ['simple_int8', (values) => Int8Array.from(values)],
    ['simple_string', (values) => values.map(String)],
  ]

  describe.each(instances)('with %s', (_, instanceGroup) => {
    it.each(feeds)('%s adds and subtracts', async (name, make) => {
      const model = await load(
        engine,
        sharedPath(`models/triton-repository/${name}/1/model.onnx`),
        grouped(instanceGroup),
      )
      const answers = await inParallel(callers, rows, (row) =>
        model.infer({ INPUT0: make(a(row)), INPUT1: make(b(row)) }),
      )
      for (const row of rows) {
        const numbers = (output: string) =>
          Array.from(answers[row]![output]!.data as ArrayLike<number | string>, Number)
        expect(numbers('OUTPUT0')).toEqual(a(row).map((value, index) => value + b(row)[index]!))
        expect(numbers('OUTPUT1')).toEqual(a(row).map((value, index) => value - b(row)[index]!))
      }
      expect(largestBatch(model)).toBeGreaterThan(1)
    })
  })
})
