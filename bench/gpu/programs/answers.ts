import { InferenceEngine, Tensor, type InstanceKind, type Model, type Outputs } from 'zerohop'
import { decodeImage } from 'zerohop/image'
import { answer, input } from '../../child.ts'
import type { GpuFound, GpuInput, GpuRan } from '../gpu-question.ts'
import { largestDifference } from '../largest-difference.ts'
import { median } from '../../statistics.ts'

const { kind, path, input: name, rowDims, images, library, seconds } = input<GpuInput>()
const engine = new InferenceEngine({
  executor: 'native',
  cpuWorkers: 1,
  ...(library === undefined ? {} : { providers: { webgpu: { library } } }),
})

/** Photographs where the model takes them, else numbers of every size. */
async function requests(): Promise<Record<string, Tensor>[]> {
  const numbers = (seed: number) =>
    Float32Array.from({ length: rowDims.reduce((a, b) => a * b, 1) }, (_, index) => Math.sin(seed + index))
  const tensors =
    images.length > 0
      ? images.map((image) => decodeImage(image, { width: 224, height: 224, channels: 'bgr' }))
      : [1, 2, 3].map((seed) => new Tensor('float32', numbers(seed), [1, ...rowDims]))
  return (await Promise.all(tensors)).map((tensor) => ({ [name]: tensor }))
}

const load = (kind: InstanceKind) => engine.load(kind, { path, instanceGroup: [{ kind }] })

async function answers(model: Model<any>, feeds: readonly Record<string, Tensor>[]): Promise<number[][]> {
  const outputs = await Promise.all(feeds.map((each) => model.infer(each)))
  return outputs.map((each) =>
    Object.values(each as Outputs).flatMap(({ data }) => Array.from(data as Float32Array)),
  )
}

async function requestMs(model: Model<any>, feeds: Record<string, Tensor>): Promise<number> {
  const took: number[] = []
  const end = performance.now() + seconds * 1000
  do {
    const start = performance.now()
    await model.infer(feeds)
    took.push(performance.now() - start)
  } while (performance.now() < end)
  return median(took)
}

async function compare(): Promise<GpuFound> {
  const feeds = await requests()
  const cpu = await load('cpu')
  const gpu = await load(kind)
  const plugin = engine.capabilities().providers.find(({ source }) => source === 'plugin')
  if (plugin?.available === false)
    return { ran: null, code: 'ZEROHOP_PROVIDER_FALLBACK', reason: plugin.reason }
  const [expected, found] = [await answers(cpu, feeds), await answers(gpu, feeds)]
  const ran: GpuRan = {
    difference: Math.max(...found.map((each, index) => largestDifference(each, expected[index]!))),
    gpuMs: await requestMs(gpu, feeds[0]!),
    cpuMs: await requestMs(cpu, feeds[0]!),
    device: plugin?.devices.map((device) => device.name).join(', ') ?? '',
  }
  return { ran }
}

const found = await compare().catch((error: Error & { code?: string }): GpuFound => ({
  ran: null,
  code: error.code ?? error.name,
  reason: error.message,
}))
await engine.close()
answer(found)
