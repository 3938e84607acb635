import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { Tensor, type Model } from '../../src/index.ts'
import { largestBatch } from '../support/against-plain.ts'
import { repetitions } from '../support/full.ts'
import { ownEngine } from '../support/open.ts'
import { hasShared, inParallel, missingShared, sharedPath } from '../support/shared.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'
import { classes, images, loadAround, squeezenetPath } from './squeezenet.ts'

const ensemble = `
platform: "ensemble"
max_batch_size: 8
input { name: "IMAGE" data_type: TYPE_UINT8 dims: [-1] }
output { name: "LABEL" data_type: TYPE_STRING dims: [1] }
ensemble_scheduling {
  step { model_name: "decode" model_version: -1 input_map { key: "image" value: "IMAGE" } output_map { key: "pixels" value: "PIXELS" } }
  step { model_name: "normalise" model_version: -1 input_map { key: "pixels" value: "PIXELS" } output_map { key: "planes" value: "PLANES" } }
  step { model_name: "squeezenet" model_version: 1 input_map { key: "data_0" value: "PLANES" } output_map { key: "softmaxout_1" value: "SCORES" } }
  step { model_name: "best" model_version: -1 input_map { key: "scores" value: "SCORES" } output_map { key: "labels" value: "LABEL" } }
}`
const squeezenet =
  'max_batch_size: 8 input { name: "data_0" data_type: TYPE_FP32 dims: [3, 224, 224] } output { name: "softmaxout_1" data_type: TYPE_FP32 dims: [1000] reshape { shape: [1000, 1, 1] } } instance_group { count: 1 }'

/** The labels of all images, some times over, from 64 callers. */
async function readLabels(
  model: Model,
  input: string,
  output: string,
  rounds = repetitions(10, 2),
): Promise<string[][]> {
  const files = images.map(([name]) => readFileSync(sharedPath(`images/${name}`)))
  const asked = Array.from({ length: rounds }, () => files).flat()
  const feed = (file: Buffer) => new Tensor('uint8', new Uint8Array(file), [1, file.length])
  const answers = await inParallel(64, asked, (file) => model.infer({ [input]: feed(file) }))
  const labels = answers.map((answer) => answer[output]!.data[0] as string)
  return Array.from({ length: rounds }, (_, round) =>
    labels.slice(round * files.length, (round + 1) * files.length),
  )
}

const known = images.map(([, label]) => label)

describe.skipIf(!hasShared)(`decode, normalise, SqueezeNet, top-k${missingShared}`, () => {
  it('as a pipeline knows what is in every image, for 64 callers', async () => {
    const engine = ownEngine()
    await loadAround(engine)
    const model = await engine.load('squeezenet', {
      path: squeezenetPath(),
      maxBatchSize: 8,
      outputs: classes,
    })
    const pipeline = await engine.loadPipeline('classifier', {
      inputs: ['image'],
      steps: [
        { model: 'decode', inputs: { image: 'image' }, outputs: { pixels: 'pixels' } },
        { model: 'normalise', inputs: { pixels: 'pixels' }, outputs: { planes: 'planes' } },
        { model: 'squeezenet', inputs: { data_0: 'planes' }, outputs: { softmaxout_1: 'scores' } },
        { model: 'best', inputs: { scores: 'scores' }, outputs: { labels: 'label' } },
      ],
      outputs: ['label'],
    })
    for (const labels of await readLabels(pipeline, 'image', 'label')) expect(labels).toEqual(known)
    expect(largestBatch(model)).toBeGreaterThan(1)
    await expect(
      pipeline.infer({ image: new Tensor('uint8', new Uint8Array(100), [1, 100]) }),
    ).rejects.toMatchObject({ code: 'ERR_EXECUTION', step: 'decode' })
  })

  it('as an ensemble of a Triton repository knows the same', async () => {
    const engine = ownEngine()
    await loadAround(engine)
    const repository = temporaryFolder({
      'classifier/config.pbtxt': ensemble,
      'classifier/1/.keep': '',
      'squeezenet/config.pbtxt': squeezenet,
      'squeezenet/1/model.onnx': readFileSync(squeezenetPath()),
    })
    const models = await engine.loadRepository(repository)
    expect(models.map(({ name }) => name).sort()).toEqual(['classifier', 'squeezenet'])
    for (const labels of await readLabels(engine.model('classifier'), 'IMAGE', 'LABEL'))
      expect(labels).toEqual(known)
    expect(engine.model('classifier').metadata).toMatchObject({
      maxBatchSize: 8,
      inputs: [{ name: 'IMAGE', shape: ['rows', ''] }],
      outputs: [{ name: 'LABEL', type: 'string' }],
    })
  })
})
