import { availableParallelism } from 'node:os'
import { floatsOf } from '../answers.ts'
import { source } from '../folders.ts'
import type { HttpPeer } from '../peer.ts'
import { python, setUpPython, settingsVariable } from './python.ts'

export const bentoMl: HttpPeer = {
  kind: 'http',
  name: 'bentoml',
  describe: 'BentoML with a process for each core, and adaptive batches for JSON',
  setUp: setUpPython('bentoml', 'bentoml', 'uvicorn', 'onnxruntime'),
  settings: (workload) => ({
    workers: availableParallelism(),
    intraOpNumThreads: 1,
    maxBatchSize: workload.maxBatchSize,
  }),
  server: (workload, [port]) => ({
    ...python(
      'bentoml',
      ['-m', 'bentoml', 'serve', 'service:Peer', '--host', '127.0.0.1', '--port', String(port)],
      {
        ...settingsVariable(workload, bentoMl.settings(workload)),
        BENTOML_DO_NOT_TRACK: 'True',
      },
    ),
    cwd: source('bentoml'),
  }),
  request: ({ json, jpeg }, body) =>
    json
      ? {
          path: '/rows',
          headers: { 'content-type': 'application/json' },
          body: Buffer.from(JSON.stringify({ input: [Array.from(floatsOf(body))] })),
        }
      : {
          path: '/body',
          headers: { 'content-type': jpeg ? 'image/jpeg' : 'application/octet-stream' },
          body,
        },
  answer: ({ json }, { body }) =>
    json ? Float32Array.from((JSON.parse(body.toString()) as number[][])[0]!) : floatsOf(body),
}
