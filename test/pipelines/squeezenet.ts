import type { InferenceEngine } from '../../src/index.ts'
import { topK } from '../../src/features/functions/function-exports.ts'
import { sharedLines, sharedPath } from '../support/shared.ts'

/** Images and what is in them, as published models see it. */
export const images = [
  ['goldfish.jpg', 'goldfish'], ['mug.jpg', 'coffee mug'], ['wolves.jpg', 'white wolf'], ['fish.png', 'tench'],
  ['kitten.jpg', 'tiger cat'], ['bus.jpg', 'minibus'], ['dog_torchserve.jpg', 'Great Pyrenees'],
] as const // prettier-ignore

export const squeezenetPath = () => sharedPath('models/squeezenet/model.onnx')

/** The outputs of SqueezeNet as one row of classes. */
export const classes = [
  { name: 'softmaxout_1', type: 'float32', dims: [1000], reshape: [1000, 1, 1] },
] as const

/** Loads what stands before and behind SqueezeNet. */
export async function loadAround(engine: InferenceEngine): Promise<void> {
  const labels = sharedLines('models/squeezenet/labels.txt').map(
    (line) => line.slice('n01440764 '.length).split(',')[0]!,
  )
  await engine.loadFunction('decode', {
    module: new URL('./fixtures/decode.mjs', import.meta.url),
    inputs: [{ name: 'image', type: 'uint8', dims: [-1] }],
    outputs: [{ name: 'pixels', type: 'uint8', dims: [224, 224, 3] }],
  })
  await engine.loadFunction('normalise', {
    module: new URL('./fixtures/normalise.mjs', import.meta.url),
    inputs: [{ name: 'pixels', type: 'uint8', dims: [224, 224, 3] }],
    outputs: [{ name: 'planes', type: 'float32', dims: [3, 224, 224] }],
  })
  await engine.loadFunction('best', topK({ count: 1, labels }))
}
