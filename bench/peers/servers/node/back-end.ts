import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { InferenceEngine, Tensor, type ComputePrecision, type Model, type ModelConfig } from 'zerohop'
import { decodeImage } from 'zerohop/image'
import { openServer } from '../../../server.ts'
import type { LoopInput } from '../../workload.ts'

/** What answers in Node: ours, or what there is without it. */
export interface BackEndSettings {
  readonly side: 'zerohop' | 'plain' | 'dataloader' | 'piscina' | 'transformers-js'
  readonly intraOpNumThreads: number
  readonly maxBatchSize: number
  /** Ours only. */
  readonly instances?: number
  readonly plugin?: { readonly library: string; readonly precision?: ComputePrecision }
  /** Of transformers.js: where it is installed, and the folder of its models. */
  readonly packages?: string
  readonly models?: string
}

export interface BackEnd {
  /** @param body a row's floats, or a JPEG. */
  infer(body: Float32Array | Uint8Array): Promise<Float32Array>
  close(): Promise<void>
}

type Workload = LoopInput['workload']

export function openBackEnd(workload: Workload, settings: BackEndSettings): Promise<BackEnd> {
  if (settings.side === 'zerohop') return ours(workload, settings)
  return settings.side === 'transformers-js'
    ? transformersJs(workload, settings)
    : baseline(workload, settings, settings.side)
}

/** zerohop with the workload's model under this name. */
export async function openEngine(
  name: string,
  { model, jpeg }: Workload,
  { intraOpNumThreads, maxBatchSize, instances = 1, plugin }: BackEndSettings,
): Promise<{ readonly engine: InferenceEngine; readonly loaded: Model }> {
  const engine = new InferenceEngine(plugin === undefined ? {} : { providers: { openvino: plugin } })
  const config: ModelConfig = {
    path: model.path,
    maxBatchSize,
    instanceGroup: [{ kind: plugin === undefined ? 'cpu' : 'openvino', count: instances }],
    // Encoded images are decoded into the rows of batches.
    ...(jpeg ? { inputs: [{ name: model.input, image: { channels: 'bgr' } }] } : {}),
    sessionOptions: { intraOpNumThreads },
  }
  const loaded = await engine.load(name, config)
  const used = engine.capabilities().providers
  if (plugin !== undefined && loaded.metadata.executionProviders[0]?.used !== true)
    throw new Error(`OpenVINO is not used: ${JSON.stringify(used)}`)
  return { engine, loaded }
}

async function ours(workload: Workload, settings: BackEndSettings): Promise<BackEnd> {
  const { model, jpeg } = workload
  const { engine, loaded } = await openEngine('workload', workload, settings)
  const dims = [1, ...model.rowDims]
  return {
    async infer(body) {
      const outputs = await loaded.infer({
        [model.input]: jpeg ? (body as Uint8Array) : new Tensor('float32', body as Float32Array, dims),
      })
      return outputs[model.output]!.data as Float32Array
    },
    close: () => engine.close(),
  }
}

/** How long ONNX Runtime's threads spin before they sleep, as in sessions of zerohop's. */
const spinUs = 20

async function baseline(
  { model, jpeg }: Workload,
  { intraOpNumThreads, maxBatchSize }: BackEndSettings,
  side: 'plain' | 'dataloader' | 'piscina',
): Promise<BackEnd> {
  const server = await openServer(side)
  const loaded = await server.load({ model, intraOpNumThreads, maxBatchSize, spinUs })
  const dims = [1, ...model.rowDims]
  return {
    async infer(body) {
      const row = jpeg ? await decoded(body as Uint8Array) : new Tensor('float32', body as Float32Array, dims)
      const outputs = await loaded.infer({ [model.input]: row })
      return outputs[model.output]!.data as Float32Array
    },
    close: () => server.close(),
  }
}

/** All Node peers have the same decoder, which is ours. */
const decoded = (jpeg: Uint8Array): Promise<Tensor> =>
  decodeImage(jpeg, { width: 224, height: 224, channels: 'bgr' })

/** What of transformers.js is used, which is not installed with this project. */
interface TransformersJs {
  readonly env: { localModelPath: string; allowRemoteModels: boolean; allowLocalModels: boolean }
  readonly PreTrainedModel: {
    from_pretrained(
      name: string,
      options: object,
    ): Promise<(feeds: object) => Promise<Record<string, { data: Float32Array }>>>
  }
  readonly Tensor: new (type: 'float32', data: Float32Array, dims: readonly number[]) => object
}

async function transformersJs(
  { name, model, jpeg }: Workload,
  { packages, models, intraOpNumThreads }: BackEndSettings,
): Promise<BackEnd> {
  const entry = createRequire(join(packages!, 'package.json')).resolve('@huggingface/transformers')
  const {
    env,
    PreTrainedModel,
    Tensor: OwnTensor,
  } = (await import(pathToFileURL(entry).href)) as TransformersJs
  Object.assign(env, { localModelPath: models!, allowLocalModels: true, allowRemoteModels: false })
  const sessionOptions = {
    intraOpNumThreads,
    interOpNumThreads: 1,
    extra: { session: { intra_op: { allow_spinning: '1', spin_duration_us: String(spinUs) } } },
  }
  const run = await PreTrainedModel.from_pretrained(name, {
    dtype: 'fp32',
    device: 'cpu',
    session_options: sessionOptions,
  })
  const dims = [1, ...model.rowDims]
  return {
    async infer(body) {
      const row = jpeg ? ((await decoded(body as Uint8Array)).data as Float32Array) : (body as Float32Array)
      const outputs = await run({ [model.input]: new OwnTensor('float32', row, dims) })
      return outputs[model.output]!.data
    },
    async close() {},
  }
}
