import { fileURLToPath } from 'node:url'
import { InferenceEngine } from 'zerohop'
import { openVinoPlugin } from '../../../test/providers/libraries.ts'
import { step } from '../environments.ts'
import { type HttpPeer, PeerMissing, type Versions } from '../peer.ts'
import { kserve } from '../kserve.ts'
import { behindFastify, inProcess, ownVersions, serverProgram, threadsOf, type SettingsOf } from './node.ts'

/**
 * Two instances of one thread without batches for SqueezeNet, which give 4 to 6 % more images/s on two cores than batches of 8; for
 * the others one instance with batches.
 */
const onTheCpu: SettingsOf = (workload) =>
  workload.name === 'squeezenet'
    ? { side: 'zerohop', intraOpNumThreads: 1, instances: threadsOf(workload), maxBatchSize: 1 }
    : { side: 'zerohop', intraOpNumThreads: threadsOf(workload), maxBatchSize: workload.maxBatchSize }

const withPlugin =
  (precision: 'float32' | undefined): SettingsOf =>
  (workload) => {
    const { library, missing } = openVinoPlugin()
    if (library === null) throw new Error(missing)
    return {
      side: 'zerohop',
      intraOpNumThreads: threadsOf(workload),
      maxBatchSize: workload.maxBatchSize,
      plugin: { library, ...(precision === undefined ? {} : { precision }) },
    }
  }

/** Without its addon it falls back to onnxruntime-node's binding: figures of that are others. */
async function setUp(): Promise<Versions> {
  const engine = new InferenceEngine()
  const { available, reason } = engine.capabilities().native
  await engine.close()
  return {
    ...ownVersions(),
    addon: available ? 'used' : `not used (${reason!.split(/[\n;]/)[0]}): npm run build:native`,
  }
}

async function setUpPlugin(): Promise<Versions> {
  await step(process.execPath, [
    fileURLToPath(new URL('../../../scripts/providers/install-openvino.mjs', import.meta.url)),
  ])
  const { library, missing } = openVinoPlugin()
  if (library === null) throw new PeerMissing(missing)
  return { ...(await setUp()), 'onnxruntime-ep-openvino': '1.8.1' }
}

const cpu = { describe: "zerohop in the callers' process", settingsOf: onTheCpu, setUp }
const float32 = {
  describe: "zerohop in process, on OpenVINO's plugin in float32",
  settingsOf: withPlugin('float32'),
  setUp: setUpPlugin,
}
const own = {
  describe: "zerohop in process, on OpenVINO's plugin in the precision that it chooses",
  settingsOf: withPlugin(undefined),
  setUp: setUpPlugin,
  lowPrecision: true,
}

export const zerohop = inProcess('zerohop', cpu)
export const zerohopOpenVinoFloat32 = inProcess('zerohop-openvino-float32', float32)
export const zerohopOpenVino = inProcess('zerohop-openvino', own)
export const fastifyZerohop = behindFastify('fastify-zerohop', { ...cpu, describe: 'zerohop behind Fastify' })
export const fastifyZerohopOpenVino = behindFastify('fastify-zerohop-openvino', {
  ...own,
  describe: "zerohop behind Fastify, on OpenVINO's plugin",
})
export const kserveZerohop: HttpPeer = {
  kind: 'http',
  name: 'kserve-zerohop',
  describe: 'zerohop/kserve on node:http: the protocol of Triton',
  setUp,
  settings: (workload) => ({ ...onTheCpu(workload) }),
  server: (workload, [port]) => serverProgram('kserve-server.ts', workload, onTheCpu, port),
  ...kserve,
}
