import { availableParallelism } from 'node:os'
import type { HttpPeer } from '../peer.ts'
import { jsonOrBytes, python, setUpPython, settingsVariable } from './python.ts'

const cores = availableParallelism()

/** https://fastapi.tiangolo.com/deployment/server-workers/ */
export const fastApi: HttpPeer = {
  kind: 'http',
  name: 'fastapi',
  describe: 'FastAPI and uvicorn with a process for each core, onnxruntime in each, no batches',
  setUp: setUpPython('fastapi', 'fastapi', 'uvicorn', 'uvloop', 'httptools', 'orjson', 'onnxruntime'),
  settings: () => ({ workers: cores, intraOpNumThreads: 1 }),
  server(workload, [port]) {
    const options = [
      '--host',
      '127.0.0.1',
      '--port',
      String(port),
      '--workers',
      String(cores),
      '--loop',
      'uvloop',
      '--http',
      'httptools',
    ]
    return python(
      'fastapi',
      ['-m', 'uvicorn', 'app:app', ...options, '--no-access-log', '--log-level', 'error'],
      settingsVariable(workload, fastApi.settings(workload)),
    )
  },
  ...jsonOrBytes('/json', '/bytes'),
}
