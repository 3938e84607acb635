import { availableParallelism } from 'node:os'
import { source } from '../folders.ts'
import { kserve } from '../kserve.ts'
import type { HttpPeer } from '../peer.ts'
import { isSmall } from './node.ts'
import { python, setUpPython, settingsVariable } from './python.ts'

export const pyTriton: HttpPeer = {
  kind: 'http',
  name: 'pytriton',
  describe: "PyTriton: Triton's server and batcher before onnxruntime in Python",
  setUp: setUpPython('pytriton', 'nvidia-pytriton', 'onnxruntime'),
  settings: (workload) => ({
    instances: isSmall(workload) ? 1 : availableParallelism(),
    intraOpNumThreads: 1,
    maxBatchSize: workload.maxBatchSize,
    maxQueueDelayMicroseconds: 0,
  }),
  server: (workload, ports) =>
    python(
      'pytriton',
      [source('pytriton/server.py'), ...ports.slice(0, 3).map(String)],
      settingsVariable(workload, pyTriton.settings(workload)),
    ),
  ...kserve,
}
