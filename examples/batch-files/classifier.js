import { readFile, stat } from 'node:fs/promises'

/** Larger files are no pictures, or none that 64 of should be in memory. */
const maxBytes = 64 * 2 ** 20

/** Loads the model: what it gives classifies a file, and says why where that cannot be. Called at the same time it fills batches. */
export async function loadClassifier(engine, { model: path, labels, image }) {
  // Which input and output there are is known only once it was loaded.
  const { inputs, outputs } = (await engine.load('classifier', { path })).metadata
  if (inputs.length !== 1 || outputs.length !== 1)
    throw new Error(
      `${path}: expected a model of one input and one output, received ${inputs.length} and ${outputs.length}`,
    )
  const [input] = inputs
  const model = await engine.load('classifier', {
    path,
    inputs: [{ name: input.name, image }],
    outputs: [{ name: outputs[0].name, labels }],
  })

  return async (file) => {
    try {
      const found = await stat(file)
      if (!found.isFile()) return { reason: 'it is no file' }
      if (found.size > maxBytes)
        return { reason: `it has ${found.size} bytes, and ${maxBytes} at most are read` }
      const [[best]] = model.classification(await model.infer({ [input.name]: await readFile(file) }), 1)
      return { label: best.label ?? `class ${best.index}`, score: best.value }
    } catch (error) {
      if (!isOfTheFile(error)) throw error
      return { reason: (error.cause?.message ?? error.message).replace(/\s+/g, ' ').trim() }
    }
  }
}

/** Others are of the model, or of what is installed, and would come for each file again. */
function isOfTheFile(error) {
  return error.code === 'ERR_IMAGE_DECODE' || error.code === 'ERR_EXECUTION' || error.syscall !== undefined
}
