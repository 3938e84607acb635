import { readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { npmEnvironment } from '../environments.ts'
import { cacheFolder } from '../folders.ts'
import type { Workload } from '../workload.ts'
import { inProcess, threadsOf } from './node.ts'

const folder = (): string => cacheFolder('transformers-js')

/** A folder as it has models: a configuration that names no architecture, and the file. */
function modelFolder({ name, model }: Workload): string {
  const models = cacheFolder('transformers-js', 'models')
  const onnx = cacheFolder('transformers-js', 'models', name, 'onnx')
  writeFileSync(join(models, name, 'config.json'), '{ "model_type": "custom" }\n')
  rmSync(join(onnx, 'model.onnx'), { force: true }) // that of an earlier run may lead nowhere, or to another model
  symlinkSync(model.path, join(onnx, 'model.onnx'))
  return models
}

/** Its pipelines know none of these models; what it can do with any is to open it and run rows, on the callers' thread, without joining requests. */
export const transformersJs = inProcess('transformers-js', {
  describe: "transformers.js, a model of its own in the callers' process",
  settingsOf: (workload) => ({
    side: 'transformers-js',
    intraOpNumThreads: threadsOf(workload),
    maxBatchSize: 1,
    packages: folder(),
    models: modelFolder(workload),
  }),
  async setUp() {
    const packages = await npmEnvironment('transformers-js')
    const version = (name: string): string =>
      (
        JSON.parse(readFileSync(join(packages, 'node_modules', name, 'package.json'), 'utf8')) as {
          version: string
        }
      ).version
    return {
      '@huggingface/transformers': version('@huggingface/transformers'),
      'onnxruntime-node': version('onnxruntime-node'),
    }
  },
})
