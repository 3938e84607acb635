import { availableParallelism } from 'node:os'
import { source } from '../folders.ts'
import type { HttpPeer } from '../peer.ts'
import { isSmall } from './node.ts'
import { jsonOrBytes, python, setUpPython, settingsVariable } from './python.ts'

/** Does not batch without a delay. */
export const rayServe: HttpPeer = {
  kind: 'http',
  name: 'ray-serve',
  describe: 'Ray Serve with batches',
  setUp: setUpPython('ray-serve', 'ray', 'uvicorn', 'onnxruntime'),
  settings: (workload) => ({
    replicas: isSmall(workload) ? 1 : availableParallelism(),
    intraOpNumThreads: 1,
    maxBatchSize: workload.maxBatchSize,
    batchWaitSeconds: 0.001,
    throughputOptimized: true,
  }),
  server: (workload, [port], folder) =>
    python('ray-serve', [source('ray-serve/server.py'), String(port), folder], {
      ...settingsVariable(workload, rayServe.settings(workload)),
      RAY_USAGE_STATS_ENABLED: '0',
      // https://docs.ray.io/en/latest/serve/advanced-guides/performance.html; without a port for each replica, which needs HAProxy before them
      RAY_SERVE_THROUGHPUT_OPTIMIZED: '1',
      RAY_SERVE_ENABLE_DIRECT_INGRESS: '0',
    }),
  ...jsonOrBytes('/', '/'),
}
