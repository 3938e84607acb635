import { availableParallelism } from 'node:os'
import { source } from '../folders.ts'
import type { HttpPeer } from '../peer.ts'
import { isSmall } from './node.ts'
import { jsonOrForm, python, setUpPython, settingsVariable } from './python.ts'

/** Takes no bytes as they are, and does not batch without a delay. */
export const litServe: HttpPeer = {
  kind: 'http',
  name: 'litserve',
  describe: 'LitServe with batches',
  setUp: setUpPython('litserve', 'litserve', 'fastapi', 'uvicorn', 'onnxruntime'),
  lacks: (workload) => (workload === 'mlp-binary' ? 'takes no body of bytes' : null),
  settings: (workload) => ({
    workers: isSmall(workload) ? 1 : availableParallelism(),
    // Of small requests HTTP and JSON are the most of the work. https://lightning.ai/docs/litserve/api-reference/litserver
    apiServers: isSmall(workload) ? availableParallelism() : 1,
    intraOpNumThreads: 1,
    maxBatchSize: workload.maxBatchSize,
    batchTimeoutSeconds: 0.001,
  }),
  server: (workload, [port]) =>
    python(
      'litserve',
      [source('litserve/server.py'), String(port)],
      settingsVariable(workload, litServe.settings(workload)),
    ),
  ...jsonOrForm('/predict', '/predict'),
}
