import { opendir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { InferenceEngine } from 'zerohop'

/** Larger files are no pictures, or none that as many as a worker holds should be in memory. */
const maxBytes = 64 * 2 ** 20

/** What no worker can classify, however often it is tried. */
export class NoPicture extends Error {}

/**
 * The engine of a worker process, with its model.
 *
 * @param {ReturnType<import('./settings.js').readSettings>} settings
 */
export async function createClassifier({ model: path, labels, image, maxWaiting, pictures }) {
  if (path === undefined)
    throw new Error(
      'MODEL: expected the path of an ONNX image classifier. Set it: MODEL=model.onnx LABELS=labels.txt npm start',
    )
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
    /** Calls back with why, when the model serves no more. */
    onFailed: (listener) => engine.on('model', ({ type, reason }) => type === 'failed' && listener(reason)),
    /** What is in a picture, by the path in its folder: the best class. */
    async classify(picture, signal) {
      try {
        const answered = await model.infer({ [input]: await readPicture(pictures, picture) }, { signal })
        const [[{ index, label, value }]] = model.classification(answered)
        return { picture, label: label ?? `class ${index}`, score: value }
      } catch (error) {
        throw error.code === 'ERR_IMAGE_DECODE' ? new NoPicture(error.message) : error
      }
    },
    close: () => engine.close(),
  }
}

/** A job may name anything: a pipe would be waited for, and a device has no end. */
async function readPicture(folder, picture) {
  const path = join(folder, picture)
  const found = await stat(path).catch(async (error) => {
    // Where the folder is mounted and that is gone, it is empty: other workers may have the picture.
    throw error.code === 'ENOENT' && !(await isEmpty(folder)) ? new NoPicture('there is no such file') : error
  })
  if (!found.isFile()) throw new NoPicture('it is no file')
  if (found.size > maxBytes)
    throw new NoPicture(`it has ${found.size} bytes, and ${maxBytes} at most are read`)
  return readFile(path)
}

async function isEmpty(folder) {
  try {
    for await (const _ of await opendir(folder)) return false
  } catch {
    // It is gone.
  }
  return true
}
