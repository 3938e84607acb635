import { copyFileSync, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { cacheFolder } from '../folders.ts'
import { kserve } from '../kserve.ts'
import { PeerMissing, type HttpPeer, type PeerOptions, type Versions } from '../peer.ts'
import type { Workload } from '../workload.ts'
import { isSmall } from './node.ts'
import { setUpPython } from './python.ts'

/** Where PyTriton's wheel has the server and its library. */
export function tritonOfWheel(): { server: string; library: string } {
  const lib = join(cacheFolder('pytriton'), 'venv/lib')
  const packages = join(lib, readdirSync(lib)[0]!, 'site-packages')
  const libraries = join(packages, 'nvidia_pytriton.libs')
  const library = readdirSync(libraries).find((name) => name.startsWith('libtritonserver'))!
  return {
    server: join(packages, 'pytriton/tritonserver/bin/tritonserver'),
    library: join(libraries, library),
  }
}

let backends = ''

export const tritonBackends = (): string => backends

export async function setUpTriton({ tritonBackends: folder }: PeerOptions): Promise<Versions> {
  const versions = await setUpPython('pytriton', 'nvidia-pytriton', 'onnxruntime')()
  const how =
    "Triton's ONNX Runtime back end is in no registry: build it with bench/peers/servers/triton/build-backend.sh, and name the folder by --triton-backends"
  if (folder === undefined) throw new PeerMissing(how)
  if (!existsSync(join(folder, 'onnxruntime/libtriton_onnxruntime.so')))
    throw new PeerMissing(`${how} (there is no onnxruntime/libtriton_onnxruntime.so in that)`)
  backends = folder
  return { ...versions, triton: '24.10' }
}

/** Its back end's threads cannot be told not to spin, so each instance has one. */
export const tritonSettings = (workload: Workload) => ({
  instances: isSmall(workload) ? 1 : availableParallelism(),
  intraOpNumThreads: 1,
  maxBatchSize: workload.maxBatchSize,
  maxQueueDelayMicroseconds: 0,
})

/** Writes a repository with the workload's model, and tells where. https://github.com/triton-inference-server/server/blob/r24.10/docs/user_guide/optimization.md */
export function tritonRepository(workload: Workload): string {
  const { model } = workload
  const { instances, intraOpNumThreads, maxBatchSize, maxQueueDelayMicroseconds } = tritonSettings(workload)
  const repository = cacheFolder('triton', workload.name)
  rmSync(join(repository, 'peer'), { recursive: true, force: true })
  copyFileSync(model.path, join(cacheFolder('triton', workload.name, 'peer', '1'), 'model.onnx'))
  const config = `
    backend: "onnxruntime"
    max_batch_size: ${maxBatchSize}
    input [{ name: "${model.input}" data_type: TYPE_FP32 dims: [${model.rowDims.join(', ')}] }]
    output [{ name: "${model.output}" data_type: TYPE_FP32 dims: [${model.outputElements}] }]
    dynamic_batching { max_queue_delay_microseconds: ${maxQueueDelayMicroseconds} }
    instance_group [{ kind: KIND_CPU count: ${instances} }]
    parameters { key: "intra_op_thread_count" value: { string_value: "${intraOpNumThreads}" } }
    parameters { key: "inter_op_thread_count" value: { string_value: "1" } }
  `
  writeFileSync(join(repository, 'peer/config.pbtxt'), config)
  return repository
}

export const noJpeg: NonNullable<HttpPeer['lacks']> = (workload) =>
  workload === 'squeezenet'
    ? "its ONNX Runtime back end decodes no JPEG; with its Python back end, which does, it is PyTriton's row"
    : null

export const tritonHttp: HttpPeer = {
  kind: 'http',
  name: 'triton',
  describe: 'Triton with its ONNX Runtime back end, where that is given by --triton-backends',
  setUp: setUpTriton,
  lacks: noJpeg,
  settings: tritonSettings,
  server: (workload, [port]) => ({
    file: tritonOfWheel().server,
    args: [
      `--model-repository=${tritonRepository(workload)}`,
      `--backend-directory=${tritonBackends()}`,
      '--http-address=127.0.0.1',
      `--http-port=${port}`,
      '--allow-grpc=false',
      '--allow-metrics=false',
      '--log-info=false',
    ],
  }),
  ...kserve,
}
