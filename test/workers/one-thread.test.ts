import { expect, it } from 'vitest'
import type { ModelOptions } from '../../src/index.ts'
import { identity } from '../models/small.ts'
import { ownEngine } from '../support/open.ts'

// Two threads in the WebGPU provider at once end the process. There may be no adapter here: the load fails then, or goes on to the CPU.
it.each<[string, ModelOptions]>([
  ['by its kind', { instanceGroup: [{ kind: 'webgpu', count: 2 }] }],
  [
    'by executionProviders',
    { instanceGroup: [{ kind: 'auto', count: 2 }], executionProviders: ['webgpu', 'cpu'] },
  ],
])('sessions on WebGPU, asked for %s, have one thread together', async (_how, options) => {
  const engine = ownEngine({ cpuWorkers: 2 })
  const started: string[] = []
  engine.on('worker', ({ type, worker }) => void (type === 'started' && started.push(worker)))
  await engine.load('m', { path: identity('float32'), ...options }).catch(() => {})
  await new Promise(setImmediate)
  const onCpu = (worker: string) => worker.startsWith('cpu')
  expect(started.filter((worker) => !onCpu(worker))).toEqual(['webgpu_0'])
  if (options.executionProviders === undefined) expect(started.filter(onCpu)).toEqual([])
})
