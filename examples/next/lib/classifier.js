import { readFile } from 'node:fs/promises'
import { InferenceEngine } from 'zerohop'

/** Modules are evaluated anew after each change in development, and once for each bundle: an engine of theirs would be left over each time. */
const kept = Symbol.for('zerohop-next.classifier')

/** The model, loaded by the first who asks; after a failure the next one tries again. */
export function classifier() {
  return (globalThis[kept] ??= load(process.env).catch((error) => {
    delete globalThis[kept]
    throw error
  }))
}

/** What strangers may have decoded. Not AVIF, a kilobyte of which can be a picture that takes a gigabyte and many seconds. */
const decoding = { formats: ['jpeg', 'png', 'webp', 'gif'], limitInputPixels: 25_000_000 }

async function load({ MODEL: path, LABELS, IMAGE = '{}' }) {
  if (path === undefined)
    throw new Error(
      'MODEL: expected the path of an ONNX image classifier. Set it: MODEL=model.onnx LABELS=labels.txt npm run dev',
    )
  const labels = LABELS === undefined ? undefined : await readLabels(LABELS)
  const engine = new InferenceEngine()
  try {
    // Which input and output there are is known only once it was loaded.
    const { inputs, outputs } = (await engine.load('classifier', { path })).metadata
    if (inputs.length !== 1 || outputs.length !== 1)
      throw new Error(
        `${path}: expected a model of one input and one output, received ${inputs.length} and ${outputs.length}`,
      )
    return await engine.load('classifier', {
      path,
      inputs: [{ name: inputs[0].name, image: { ...decoding, ...JSON.parse(IMAGE) } }],
      outputs: [{ name: outputs[0].name, labels }],
      dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 256 } },
    })
  } catch (error) {
    await engine.close()
    throw error
  }
}

/** Lists for ImageNet begin each line with the number that WordNet has for it. */
async function readLabels(path) {
  const text = await readFile(path, 'utf8')
  return text
    .trimEnd()
    .split(/\r?\n/)
    .map((line) => line.replace(/^n\d{8} /, ''))
}
