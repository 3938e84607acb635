import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { InferenceEngine } from 'zerohop'

/**
 * The engine of a worker process, with its model.
 *
 * @param {ReturnType<import('./settings.js').readSettings>} settings
 */
export async function createClassifier({ model: path, labels, image, maxWaiting, pictures }) {
  if (path === undefined) throw new Error('MODEL: expected the path of an ONNX image classifier. Set it: MODEL=model.onnx LABELS=labels.txt npm start')
  const engine = new InferenceEngine()
  // Which input and output there are is known only once it was loaded.
  const { inputs, outputs } = (await engine.load('classifier', { path })).metadata
  const [input, output] = [inputs[0].name, outputs[0].name]
  const model = await engine.load('classifier', {
    path,
    inputs: [{ name: input, image }],
    outputs: [{ name: output, labels }],
    dynamicBatching: { defaultQueuePolicy: { maxQueueSize: maxWaiting } },
  })
  return {
    capacity: () => model.capacity(),
    /** What is in a picture, by the path in its folder: the best class. */
    async classify(picture, signal) {
      const answered = await model.infer({ [input]: await readFile(join(pictures, picture)) }, { signal })
      const [[{ index, label, value }]] = model.classification(answered)
      return { picture, label: label ?? `class ${index}`, score: value }
    },
    close: () => engine.close(),
  }
}
