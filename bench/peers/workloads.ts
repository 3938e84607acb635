import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { InferenceSession, Tensor } from 'onnxruntime-node'
import { decodeImage } from 'zerohop/image'
import { mulberry32 } from '../../test/models/random.ts'
import { benchModel } from '../models.ts'
import { cacheFolder, shared } from './folders.ts'
import type { Workload, WorkloadName } from './workload.ts'

type Recipe = Omit<Workload, 'name' | 'model' | 'files' | 'references'> & {
  model(): Workload['model']
  files(): string[]
}

/** Of which SqueezeNet is sure, however they are scaled: decoders do that in ways of their own. */
const photographs = ['goldfish.jpg', 'wolves.jpg', 'daisy.jpg']

const mlp = {
  model: () => ({ ...benchModel('mlp'), output: 'output', outputElements: 10 }),
  files: () => rows('mlp', 64, 64),
  jpeg: false,
  maxBatchSize: 64,
  tolerance: 1e-4,
  lowPrecisionTolerance: 0.06,
  rates: [500, 2000],
  usualPerSecond: 3000,
}

const recipes: Readonly<Record<WorkloadName, Recipe>> = {
  mlp: { ...mlp, title: 'MLP 64-256-256-10; over HTTP as JSON', json: true, inProcessRates: [20_000] },
  'mlp-binary': { ...mlp, title: 'MLP 64-256-256-10 over HTTP, binary', json: false, inProcessRates: [] },
  squeezenet: {
    title: 'SqueezeNet 1.1, JPEG in',
    model: () => ({
      path: shared('models/squeezenet/model.onnx'),
      input: 'data_0',
      output: 'softmaxout_1',
      outputElements: 1000,
      rowDims: [3, 224, 224],
    }),
    files: () => photographs.map((name) => shared(`images/${name}`)),
    jpeg: true,
    json: false,
    maxBatchSize: 8,
    tolerance: 0.05,
    lowPrecisionTolerance: 0.1,
    rates: [20, 60],
    inProcessRates: [],
    usualPerSecond: 80,
  },
  resnet50: {
    title: 'ResNet-50, 588 KiB of float32 in',
    model: () => ({ ...benchModel('resnet50'), output: 'output', outputElements: 1000 }),
    files: () => rows('resnet50', 8, 3 * 224 * 224),
    jpeg: false,
    json: false,
    maxBatchSize: 8,
    tolerance: 1e-4,
    lowPrecisionTolerance: 0.06,
    rates: [5, 15],
    inProcessRates: [],
    usualPerSecond: 20,
  },
}

/** Makes what callers send, and asks plain ONNX Runtime for the answers. */
export async function prepare(name: WorkloadName): Promise<Workload> {
  const recipe = recipes[name]
  const [model, files] = [recipe.model(), recipe.files()]
  for (const file of [model.path, ...files])
    if (!existsSync(file)) throw new Error(`${basename(file)} is not there: ${file}`)
  const session = await InferenceSession.create(model.path, { intraOpNumThreads: 1 })
  const references: Float32Array[] = []
  for (const file of files) {
    const row = recipe.jpeg ? await decoded(file) : floats(file)
    const outputs = await session.run({ [model.input]: new Tensor('float32', row, [1, ...model.rowDims]) })
    references.push((outputs[model.output] as Tensor).data as Float32Array)
  }
  await session.release()
  return { ...recipe, name, model, files, references }
}

async function decoded(file: string): Promise<Float32Array> {
  const { data } = await decodeImage(file, { width: 224, height: 224, channels: 'bgr' })
  return data as Float32Array
}

function floats(file: string): Float32Array {
  return new Float32Array(Uint8Array.from(readFileSync(file)).buffer)
}

/** Rows of random numbers, the same each time. */
function rows(name: string, count: number, elements: number): string[] {
  const folder = cacheFolder('inputs')
  const random = mulberry32(12)
  return Array.from({ length: count }, (_, index) => {
    const file = join(folder, `${name}-${elements}-${index}.f32`)
    const row = Float32Array.from({ length: elements }, () => random() * 2 - 1)
    if (!existsSync(file)) writeFileSync(file, new Uint8Array(row.buffer))
    return file
  })
}
