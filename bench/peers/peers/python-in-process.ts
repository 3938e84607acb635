import { availableParallelism } from 'node:os'
import type { InProcessPeer } from '../peer.ts'
import { source } from '../folders.ts'
import { isSmall, threadsOf } from './node.ts'
import { noForm, python, setUpPython } from './python.ts'

const cores = availableParallelism()

/**
 * The MLP's runs hold one thread. Photographs have a thread for each core that decodes and runs them one by one, on one session. Rows of
 * ResNet have one whose runs hold all cores: of two threads the first would take all that waits, up to a batch, and the other nothing.
 */
export const pythonOnnxRuntime: InProcessPeer = {
  kind: 'in process',
  name: 'python-onnxruntime',
  describe: "Python's onnxruntime, batched by hand in the callers' process",
  lacks: noForm,
  setUp: setUpPython('onnxruntime', 'onnxruntime', 'numpy'),
  settings: (workload) => ({
    intraOpNumThreads: workload.jpeg ? 1 : threadsOf(workload),
    threads: workload.jpeg ? cores : 1,
    maxBatchSize: workload.jpeg ? 1 : workload.maxBatchSize,
  }),
  program: () => python('onnxruntime', [source('onnxruntime/loop.py')]),
}

/** As many streams as OpenVINO chooses for throughput; images one by one, as its guide advises for streams, and the MLP in batches. */
function openVino(
  name: string,
  describe: string,
  config: Readonly<Record<string, string>>,
  lowPrecision: boolean,
): InProcessPeer {
  return {
    kind: 'in process',
    name,
    describe,
    lowPrecision,
    lacks: noForm,
    setUp: setUpPython('openvino', 'openvino', 'numpy'),
    settings: (workload) => ({
      threads: cores,
      maxBatchSize: isSmall(workload) ? workload.maxBatchSize : 1,
      config,
    }),
    program: () => python('openvino', [source('openvino/loop.py')]),
  }
}

export const openVinoFloat32 = openVino(
  'openvino-float32',
  "OpenVINO's AsyncInferQueue in float32, in Python",
  { INFERENCE_PRECISION_HINT: 'f32' },
  false,
)
export const openVinoDefault = openVino(
  'openvino',
  "OpenVINO's AsyncInferQueue in the precision that it chooses, in Python",
  {},
  true,
)
