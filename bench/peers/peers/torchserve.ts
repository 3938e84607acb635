import { writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { debianPackages } from '../debian.ts'
import { pinnedVersions, pythonEnvironment, step } from '../environments.ts'
import { cacheFolder, source } from '../folders.ts'
import { PeerMissing, type HttpPeer, type Versions } from '../peer.ts'
import type { Workload } from '../workload.ts'
import { isSmall } from './node.ts'
import { jsonOrBytes, python, pythonOf, settingsVariable } from './python.ts'

/** Its workers import PyTorch whatever they run. That of PyPI brings CUDA along, Debian's does not. */
const torch = 'python3-torch'

/** Where Debian's packages have what is loaded. */
const libraries = [
  'usr/lib/x86_64-linux-gnu',
  'usr/lib',
  'lib/x86_64-linux-gnu',
  'usr/lib/x86_64-linux-gnu/blas',
  'usr/lib/x86_64-linux-gnu/lapack',
]

const debian = (): string => cacheFolder('torchserve', 'debian')

async function setUp(): Promise<Versions> {
  const java = await step('java', ['--version'])
  const major = Number(/^\S+ (\d+)/.exec(java)?.[1] ?? 0)
  if (major < 11) throw new PeerMissing(`Java 11 or newer is needed, not ${java.split('\n')[0]}`)
  await pythonEnvironment('torchserve')
  await debianPackages(torch, debian())
  const version = await step(
    pythonOf('torchserve'),
    ['-c', 'import torch; print(torch.__version__)'],
    undefined,
    environment(),
  )
  const archiver = [
    join(cacheFolder('torchserve'), 'venv/bin/torch-model-archiver'),
    '--model-name',
    'peer',
    '--version',
    '1.0',
  ]
  await step(pythonOf('torchserve'), [
    ...archiver,
    '--handler',
    source('torchserve/handler.py'),
    '--export-path',
    cacheFolder('torchserve', 'models'),
    '--force',
  ])
  return {
    ...pinnedVersions('torchserve', ['torchserve', 'onnxruntime']),
    torch: version,
    java: String(major),
  }
}

function environment(): Record<string, string> {
  return {
    LD_LIBRARY_PATH: libraries.map((path) => join(debian(), path)).join(':'),
    PYTHONPATH: `${source('python')}:${source('torchserve')}:${join(debian(), 'usr/lib/python3/dist-packages')}`,
  }
}

/** https://pytorch.org/serve/configuration.html; does not batch without a delay, and its queue of 100 would refuse callers. */
function properties(workload: Workload, ports: readonly number[]): string {
  const { workers, maxBatchSize, maxBatchDelayMs } = settings(workload)
  const model = {
    defaultVersion: true,
    marName: 'peer.mar',
    minWorkers: workers,
    maxWorkers: workers,
    batchSize: maxBatchSize,
    maxBatchDelay: maxBatchDelayMs,
    responseTimeout: 600,
  }
  return [
    ...['inference', 'management', 'metrics'].map(
      (name, index) => `${name}_address=http://127.0.0.1:${ports[index]}`,
    ),
    `grpc_inference_port=${ports[3]}`,
    `grpc_management_port=${ports[4]}`,
    'job_queue_size=2000',
    'disable_token_authorization=true',
    'disable_system_metrics=true',
    'enable_metrics_api=false',
    'install_py_dep_per_model=false',
    'load_models=peer.mar',
    `models=${JSON.stringify({ peer: { '1.0': model } })}`,
    '',
  ].join('\n')
}

const settings = (workload: Workload) => ({
  workers: isSmall(workload) ? 1 : availableParallelism(),
  intraOpNumThreads: 1,
  maxBatchSize: workload.maxBatchSize,
  maxBatchDelayMs: 1,
})

export const torchServe: HttpPeer = {
  kind: 'http',
  name: 'torchserve',
  describe: 'TorchServe with a handler that runs ONNX, and batches',
  setUp,
  settings,
  readyPath: '/ping',
  server(workload, ports, folder) {
    writeFileSync(join(folder, 'config.properties'), properties(workload, ports))
    const start = [
      join(cacheFolder('torchserve'), 'venv/bin/torchserve'),
      '--start',
      '--foreground',
      '--ncs',
      '--model-store',
      cacheFolder('torchserve', 'models'),
    ]
    const command = python('torchserve', [
      ...start,
      '--ts-config',
      join(folder, 'config.properties'),
      '--log-config',
      source('torchserve/log4j2.xml'),
    ])
    const python3 = join(cacheFolder('torchserve'), 'venv/bin')
    return {
      ...command,
      cwd: folder,
      env: {
        ...command.env,
        ...environment(),
        ...settingsVariable(workload, settings(workload)),
        PATH: `${python3}:${process.env['PATH']}`,
        LOG_LOCATION: folder,
        METRICS_LOCATION: folder,
      },
    }
  },
  ...jsonOrBytes('/predictions/peer', '/predictions/peer'),
}
